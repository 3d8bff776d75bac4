"""yaml_subset.py - as much YAML as docs/openapi.yaml needs: blocks of "key: value" and "- item",
and on one line {maps}, [lists], 'quoted' and "JSON" strings. What it does not know, it refuses.
"""
import json
import re


def scalar(text):
    if re.fullmatch(r"-?[0-9]+", text):
        return int(text)
    return {"true": True, "false": False, "null": None}.get(text, text)


class Flow:
    def __init__(self, text):
        self.text, self.at = text, 0

    def skip(self):
        while self.text[self.at:self.at + 1] == " ":
            self.at += 1

    def take(self, char):
        self.skip()
        if self.text[self.at:self.at + 1] != char:
            return False
        self.at += 1
        return True

    def value(self):
        self.skip()
        if self.take("{"):
            found = {}
            while not self.take("}"):
                key = self.value()
                if not self.take(":"):
                    raise ValueError("no colon in " + self.text)
                found[key] = self.value()
                self.take(",")
            return found
        if self.take("["):
            found = []
            while not self.take("]"):
                found.append(self.value())
                self.take(",")
            return found
        if self.text[self.at] == '"':
            text, self.at = json.decoder.scanstring(self.text, self.at + 1)
            return text
        if self.take("'"):
            end = self.text.index("'", self.at)
            text, self.at = self.text[self.at:end], end + 1
            return text
        plain = re.compile(r"[^,\]}:]+(?::[^ ,\]}][^,\]}:]*)*").match(self.text, self.at)
        self.at = plain.end()
        return scalar(plain.group().strip())


def inline(text):
    if text[0] not in "{['\"":
        return scalar(text)
    flow = Flow(text)
    value = flow.value()
    flow.skip()
    if flow.at != len(text):
        raise ValueError("not understood: " + text)
    return value


def block(lines, indent):
    """The value whose lines begin at @indent; takes them off @lines."""
    found = [] if lines[0][1].startswith("- ") else {}
    while lines and lines[0][0] == indent:
        _, text = lines.pop(0)
        if isinstance(found, list):
            if not text.startswith("- "):
                raise ValueError("not an item: " + text)
            rest = text[2:]
            if rest[0] not in "{['\"" and re.match(r"[^ ]+:( |$)", rest):
                lines.insert(0, (indent + 2, rest))
                found.append(block(lines, indent + 2))
            else:
                found.append(inline(rest))
            continue
        key, colon, rest = re.match(r"('[^']*'|[^:]+)(:)(?: (.*))?$", text).groups()
        key = inline(key)
        if key in found:
            raise ValueError(f"twice: {key}")
        if rest:
            found[key] = inline(rest)
        elif lines and lines[0][0] > indent:
            found[key] = block(lines, lines[0][0])
        else:
            raise ValueError(f"no value: {key}")
    return found


def load(path):
    with open(path) as file:
        lines = [(len(line) - len(line.lstrip()), line.strip()) for line in file
                 if line.strip() and not line.strip().startswith("#")]
    value = block(lines, 0)
    if lines:
        raise ValueError(f"not understood: {lines[0]}")
    return value
