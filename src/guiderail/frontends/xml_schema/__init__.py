"""XML Schema: the documents that it allows, as a constraint."""

from guiderail.frontends.xml_schema.constraint import XmlSchema, xml_schema
from guiderail.frontends.xml_schema.errors import XmlReadError, XmlSchemaError, XmlSchemaLimitError
from guiderail.frontends.xml_schema.options import XmlSchemaOptions

__all__ = ["XmlReadError", "XmlSchema", "XmlSchemaError", "XmlSchemaLimitError", "XmlSchemaOptions", "xml_schema"]
