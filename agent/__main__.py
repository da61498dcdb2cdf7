"""`python -m agent` is the daemon."""

import sys

from agent.daemon.main import main

if __name__ == "__main__":
    sys.exit(main())
