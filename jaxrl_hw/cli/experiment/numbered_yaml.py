"""YAML whose values know their lines, so that an error can name one."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import yaml

from jaxrl_hw.errors import UserError, first_line


class Numbered(NamedTuple):
    """A YAML value. Mappings hold `Numbered` by key, lists hold `Numbered`."""

    value: Any
    line: int
    """Of a mapping's entry, that of its key; from 1."""

    @property
    def plain(self) -> Any:
        """The value without lines."""
        if isinstance(self.value, dict):
            return {key: one.plain for key, one in self.value.items()}
        return [one.plain for one in self.value] if isinstance(self.value, list) else self.value


def read_numbered(path: Path) -> Numbered:
    """The value of a YAML file.

    Raises:
      UserError: no such file, no YAML, an alias, or a key that is there twice or is no text.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not text"
        raise UserError(f"{path} cannot be read: {reason}") from error
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        return Numbered(None, 1) if node is None else _value(node, loader, path)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{path}, line {mark.line + 1}" if mark else str(path)
        raise UserError(f"{where}: not valid YAML: {error.problem or error.context}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise UserError(f"{path}: not valid YAML: {first_line(error)}") from error
    finally:
        loader.dispose()


def _value(node: yaml.Node, loader: yaml.SafeLoader, path: Path) -> Numbered:
    line = node.start_mark.line + 1
    if isinstance(node, yaml.SequenceNode):
        return Numbered([_value(one, loader, path) for one in node.value], line)
    if not isinstance(node, yaml.MappingNode):
        return Numbered(loader.construct_object(node), line)
    found: dict[str, Numbered] = {}
    for key_node, value_node in node.value:
        key, at = loader.construct_object(key_node), key_node.start_mark.line + 1
        if not isinstance(key, str):
            raise UserError(f"{path}, line {at}: a key must be text, got {key!r}; put it in quotes")
        if key in found:
            raise UserError(
                f'{path}, line {at}: "{key}" is there twice, first in line '
                f"{found[key].line}; leave one out"
            )
        found[key] = _value(value_node, loader, path)._replace(line=at)
    return Numbered(found, line)
