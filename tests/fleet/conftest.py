"""Let the tests of this folder share `dirty`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
