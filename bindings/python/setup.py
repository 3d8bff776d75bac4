"""Builds the wheel: the package, and libtenure.so in it.

The library is the one that the environment's TENURE_LIBRARY names. Without it, it is built with
cmake from the sources around this folder; TENURE_CMAKE_ARGS has further arguments for that. Nothing
is written below this folder.
"""
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # Before setuptools 70.
    from wheel.bdist_wheel import bdist_wheel

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
scratch = tempfile.TemporaryDirectory(prefix="tenure-wheel-")


def version():
    text = (ROOT / "CMakeLists.txt").read_text()
    return re.search(r"project\(tenure VERSION ([0-9.]+)", text).group(1)


def build_library():
    """The path of a libtenure.so."""
    named = os.environ.get("TENURE_LIBRARY")
    if named:
        return Path(named).resolve(strict=True)
    folder = Path(scratch.name, "cmake")
    arguments = shlex.split(os.environ.get("TENURE_CMAKE_ARGS", ""))
    configure = ["cmake", "-S", str(ROOT), "-B", str(folder), "-DCMAKE_BUILD_TYPE=Release"]
    jobs = str(os.cpu_count() or 1)
    # The makefiles that CMake writes must not inherit the variables of a make around this.
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL")}
    for command in (
        configure + ["-DTENURE_TESTS=OFF", "-DTENURE_WERROR=OFF"] + arguments,
        ["cmake", "--build", str(folder), "--target", "tenure_shared", "-j", jobs],
    ):
        subprocess.run(command, check=True, env=environment)
    return (folder / "libtenure.so").resolve(strict=True)


class BuildWithLibrary(build_py):
    def run(self):
        super().run()
        shutil.copyfile(build_library(), Path(self.build_lib, "tenure", "libtenure.so"))
        shutil.copyfile(ROOT / "LICENSE", Path(self.build_lib, "tenure", "LICENSE"))


class PlatformWheel(bdist_wheel):
    """For any Python 3 of this platform: the library does not know of the interpreter."""

    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class WithLibrary(Distribution):
    def has_ext_modules(self):
        return True


setup(
    version=version(),
    distclass=WithLibrary,
    cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": PlatformWheel},
    options={
        "build": {"build_base": os.path.join(scratch.name, "build")},
        "egg_info": {"egg_base": scratch.name},
    },
)
