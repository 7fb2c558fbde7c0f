"""Print the lowest or the highest versions that pyproject.toml allows, as constraints for pip."""

import re
import sys
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
requirements = [*project["dependencies"], *project["optional-dependencies"]["images"]]
for requirement in requirements:
    name, lowest = re.fullmatch(r"([\w-]+)>=([\d.]+)", requirement).groups()
    if sys.argv[1:] == ["lowest"]:
        print(f"{name}=={lowest}")
        if name == "jax":
            print(f"jaxlib=={lowest}")
    else:
        print(f"{name}>={lowest}")
