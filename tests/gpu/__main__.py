"""``python -m tests.gpu [FRAMEWORK...]``: the chapters on the cards of this machine, as a table.

For each framework: the cards it can use; its chapter (§1 to §6) on two of them, and on one as far
as the comparison in §5; five steps on two devices against one; the speed-up of two cards.
Some minutes for each framework.

Exit status: 0 where all checks hold, 1 where one fails, 2 where there was no card to check on.
"""

import argparse
import sys
from collections.abc import Sequence

from helpers.frameworks import NAMES
from tests.gpu import checks


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu", description=__doc__)
    parser.add_argument("frameworks", nargs="*", metavar="FRAMEWORK", help=", ".join(NAMES))
    chosen = parser.parse_args(arguments).frameworks
    if unknown := set(chosen) - NAMES.keys():
        parser.error(f"no framework {', '.join(sorted(unknown))}: choose of {', '.join(NAMES)}")
    sys.stdout.reconfigure(errors="replace")  # a card's name may not fit the terminal's encoding
    if why := checks.no_cards():
        print(why)
        return 2
    print(checks.HEADING)
    results = []
    for framework in chosen or NAMES:
        for result in checks.all_of(framework):
            print(result, flush=True)
            results.append(result)
    status = checks.status(results)
    if status == 2:
        print("Nothing was checked: no framework can use a card here.")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
