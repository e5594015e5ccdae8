#!/usr/bin/env python3
"""Whether what links libfettle.so in a wheel asks it for nothing that it keeps to itself.

usage: check_symbols.py NM EXPORTS.map OBJECT...
OBJECTs are those of the Python module, the plug-in and the programs. In the everyday build they have the rooms as archives,
which hold every symbol; a wheel's library exports C++ names of Fettle's alone. The functions of an artefact's interface stay
inside of it, since artefacts that a process loads define them, too.
"""

import re
import subprocess
import sys


def main():
    nm, exports, *objects = sys.argv[1:]
    text = open(exports).read()
    if 'extern "C++"' not in text or re.search(r"^\s*fettle_", text, re.MULTILINE):
        sys.exit(f"check_symbols: {exports} exports other names than this check knows of")
    listing = subprocess.run([nm, "-A", "-u", *objects], check=True, capture_output=True, text=True).stdout
    if "_ZN" not in listing:
        sys.exit("check_symbols: the objects ask for nothing of Fettle's at all")
    hidden = re.findall(r"^(\S+?): +[UwWv] (fettle_\w+)$", listing, re.MULTILINE)
    for file, symbol in hidden:
        print(f"{file} calls {symbol}, which a wheel's libfettle.so keeps to itself; call a function of namespace fettle")
    sys.exit(1 if hidden else 0)


main()
