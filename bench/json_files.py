"""JSON as the files of a model's folder have it."""

import json


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def write_json(path, value):
    """Indented, but with every list of plain numbers on one line."""
    def text(value, indent):
        pad = "  " * (indent + 1)
        if isinstance(value, dict) and value:
            rows = [f"{pad}{json.dumps(key)}: {text(item, indent + 1)}" for key, item in value.items()]
            return "{\n" + ",\n".join(rows) + "\n" + "  " * indent + "}"
        if isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value):
            return "[\n" + ",\n".join(pad + text(item, indent + 1) for item in value) + "\n" + "  " * indent + "]"
        return json.dumps(value)

    with open(path, "w", encoding="utf-8") as file:
        file.write(text(value, 0) + "\n")
