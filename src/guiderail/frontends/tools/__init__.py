"""Tool calls and tags: structural tags, and the formats in which models call tools."""

from guiderail.frontends.tools.errors import ToolError, ToolTextError, ToolWarning
from guiderail.frontends.tools.format import tool_formats
from guiderail.frontends.tools.reader import ToolCall, ToolCallReader, ToolDelta, ToolText
from guiderail.frontends.tools.structural_tag import structural_tag
from guiderail.frontends.tools.tool import Tool
from guiderail.frontends.tools.tool_calls import ToolCalls, tool_calls

__all__ = [
    "Tool",
    "ToolCall",
    "ToolCallReader",
    "ToolCalls",
    "ToolDelta",
    "ToolError",
    "ToolText",
    "ToolTextError",
    "ToolWarning",
    "structural_tag",
    "tool_calls",
    "tool_formats",
]
