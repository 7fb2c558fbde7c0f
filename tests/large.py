"""Write a folder of made-up records: ``python -m tests.large FOLDER [RUNS [STUDIES]]``."""

import sys

from denseam.rules.fields import logspace
from denseam.studies.documents import to_document
from denseam.studies.store import Store
from tests import synthetic

SCALES, RATES, SHARD = (32, 64, 128, 256, 512), 20, 1000


def write(folder, runs=100_000, studies=1):
    """Write so many runs of so many studies: 5 sizes × 20 learning rates × seeds, with curves of 64 epochs."""
    store = Store(folder)
    store.prepare()
    seeds = max(1, runs // studies // (len(SCALES) * RATES))
    for i in range(studies):
        asked = synthetic.study(
            scales=SCALES, eta0=logspace(1e-3, 1, RATES), seeds=seeds, epochs=64, noise=0.5 + 0.001 * i
        )
        made = synthetic.rows(asked)
        store.write_study(asked.id, to_document(asked))
        for begin in range(0, len(made), SHARD):
            store.write(made[begin : begin + SHARD])


if __name__ == "__main__":
    write(sys.argv[1], *map(int, sys.argv[2:]))
