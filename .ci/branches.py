"""The share of branches that tests took, from the JSON of coverage.py; fails if it is below a percentage."""

import json
import sys
from pathlib import Path

path, least = sys.argv[1:]
totals = json.loads(Path(path).read_text())["totals"]
share = 100 * totals["covered_branches"] / totals["num_branches"]
print(f"{totals['covered_branches']} of {totals['num_branches']} branches: {share:.1f} %")
sys.exit(share < float(least))
