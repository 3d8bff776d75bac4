"""The numbers and sizes of the package, and of examples/leader.py, are those of the headers."""
import ctypes
import importlib.util
import re
import shutil
import subprocess

import pytest
from conftest import ROOT

import tenure
from tenure import _errors, _native

HEADERS = ROOT / "include" / "tenure"


def test_error_codes():
    text = (HEADERS / "error.h").read_text()
    table = re.findall(r"X\(([A-Z_]+), (-\d+), ([A-Z]+), \"([^\"]+)\"\)", text)
    assert len(table) >= 13
    for _, code, outcome, said in table:
        kind = _errors.CLASSES[int(code)]
        assert kind("x").outcome_unknown == (outcome == "UNKNOWN")
        assert _native.load().text(int(code)) == said
    assert len(_errors.CLASSES) == len(table)
    unknown = _errors.error_of(-99, "x")
    assert unknown.code == -99 and unknown.outcome_unknown


def test_events():
    text = (HEADERS / "tenure.h").read_text()
    body = text.partition("enum tenure_event_kind {")[2].partition("};")[0]
    words = re.findall(r"^    TENURE_([A-Z]+)", body, re.MULTILINE)
    assert words == [kind.name for kind in tenure.EventKind]
    assert [kind.value for kind in tenure.EventKind] == list(range(1, len(words) + 1))


def load_example():
    spec = importlib.util.spec_from_file_location("leader", ROOT / "examples" / "leader.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_layout(tmp_path):
    """Every member lies where the compiler puts it."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("there is no C compiler")
    example = load_example()
    structures = [
        ("tenure_error", _native.Error),
        ("tenure_options", _native.Options),
        ("tenure_event", _native.EventRecord),
        ("tenure_campaign", _native.Campaign),
        ("tenure_error", example.Error),
        ("tenure_event", example.Event),
        ("tenure_campaign", example.Campaign),
    ]
    lines, expected = [], []
    for c_name, structure in structures:
        lines.append(f"sizeof(struct {c_name})")
        expected.append((structure, "", ctypes.sizeof(structure)))
        for field, _ in structure._fields_:
            lines.append(f"offsetof(struct {c_name}, {field})")
            expected.append((structure, field, getattr(structure, field).offset))
    source = tmp_path / "layout.c"
    body = "".join(f'    printf("%zu\\n", {line});\n' for line in lines)
    source.write_text(
        '#include <stddef.h>\n#include <stdio.h>\n#include "tenure/tenure.h"\n'
        f"int main(void)\n{{\n{body}    return 0;\n}}\n"
    )
    program = tmp_path / "layout"
    subprocess.run([compiler, f"-I{ROOT / 'include'}", source, "-o", program], check=True)
    said = subprocess.run([program], check=True, capture_output=True, text=True).stdout.split()
    assert [(s.__module__, s.__name__, f, n) for s, f, n in expected] == [
        (s.__module__, s.__name__, f, int(n)) for (s, f, _), n in zip(expected, said)
    ]


def test_version():
    assert re.fullmatch(r"\d+\.\d+\.\d+", tenure.library_version())
    text = (ROOT / "CMakeLists.txt").read_text()
    assert f"project(tenure VERSION {tenure.library_version()}" in text
