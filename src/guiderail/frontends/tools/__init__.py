"""Tool calls and tags: structural tags, and the formats in which models call tools."""

from guiderail.frontends.tools.errors import ToolError, ToolTextError, ToolWarning
from guiderail.frontends.tools.structural_tag import structural_tag

__all__ = ["ToolError", "ToolTextError", "ToolWarning", "structural_tag"]
