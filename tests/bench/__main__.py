"""Run every benchmark, or those named: `python -m tests.bench search`."""

import os
import sys
import warnings
from importlib import import_module

NAMES = ("search", "large_search", "rescoring", "evaluation", "encoding", "clustering", "training")


def main() -> None:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TQDM_DISABLE", "1")
    warnings.simplefilter("ignore")
    from cde_eval.run import machine_speed

    for name in sys.argv[1:] or NAMES:
        machine_speed.cache_clear()
        print(f"\n{name} (machine: {machine_speed():.0f} GFLOP/s in float32)", flush=True)
        for row in import_module(f"tests.bench.{name}").run():
            print(row, flush=True)


if __name__ == "__main__":
    main()
