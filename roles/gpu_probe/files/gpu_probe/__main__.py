"""`python3 -m gpu_probe`."""

import sys

from .cli import main

sys.exit(main())
