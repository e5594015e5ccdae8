#!/usr/bin/env python3
"""with_torch.py FOLDER SCRIPT ARGUMENTS: runs a script in the environment of `make check-torch`; ends with 77 where there is none."""

import os
import sys

python = os.path.join(sys.argv[1], "bin", "python")
if not os.path.exists(os.path.join(sys.argv[1], ".requirements.sha256")):
    print(f"{sys.argv[1]} is not there: make check-torch makes it")
    sys.exit(77)
os.execv(python, [python, *sys.argv[2:]])
