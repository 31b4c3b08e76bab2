"""`python -m clustersim`, the same as the command `clustersim`."""

import sys


def main() -> None:
    """Run the command line; an interrupt ends it without a traceback, even while it is imported."""
    try:
        from clustersim.cli import main

        main()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
