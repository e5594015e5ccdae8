#!/usr/bin/env bash
# Installs what Fettle is built with: Debian packages (root, or sudo) and a Python environment in build/python.
# Quiet, and free when nothing is missing. `setup.sh --dev` adds the tools of `make format` and `make lint`,
# `setup.sh --test` the browser and the emulator of `make test`. `setup.sh --tvm` makes build/python-tvm, for
# benchmarks/peers/tvm_metaschedule.py alone, `setup.sh --wheel` build/python-wheel, for `make wheel`, and
# `setup.sh --torch` build/python-torch, for `make check-torch`; `setup.sh --jax` build/python-jax, for `make check-jax`.
set -euo pipefail
cd "$(dirname "$0")/.."

lists=(scripts/packages-debian.txt)
further=()
for argument in "$@"; do
  case "$argument" in
    --dev) lists+=(scripts/packages-debian-dev.txt) ;;
    --test) lists+=(scripts/packages-debian-test.txt) ;;
    --tvm) further+=(tvm) ;;
    --wheel) further+=(wheel) ;;
    --torch) further+=(torch) ;;
    --jax) further+=(jax) ;;
    *) echo "usage: scripts/setup.sh [--dev] [--test] [--tvm] [--wheel] [--torch] [--jax]" >&2; exit 2 ;;
  esac
done

fail() {
  echo "setup: $1" >&2
  if [ "${2:-}" ]; then tail -n 15 "$2" | sed 's/^/  /' >&2; fi
  exit 1
}

mkdir -p build
exec 9>build/.setup.lock
flock 9  # two makes at once set up once

# --- Debian packages ---------------------------------------------------------------------------------------------

# Prints the packages that are absent or out of bounds, one a line, as "name reason".
missing_packages() {
  local -A version=()
  local names name status installed bounds bound
  names=$(sed 's/#.*//' "${lists[@]}" | awk 'NF {print $1}')
  while read -r name status installed; do
    [ "$status" = ii ] && version[$name]=$installed
  done < <(dpkg-query -W -f '${Package} ${db:Status-Abbrev} ${Version}\n' $names 2>/dev/null)
  while read -r name bounds; do
    if [ -z "${version[$name]:-}" ]; then
      echo "$name is not installed"
      continue
    fi
    for bound in $bounds; do
      case "$bound" in
        '>='*) dpkg --compare-versions "${version[$name]}" ge "${bound#>=}" ;;
        '<'*) dpkg --compare-versions "${version[$name]}" lt "${bound#<}" ;;
      esac || echo "$name ${version[$name]} is not $bound"
    done
  done < <(sed 's/#.*//' "${lists[@]}" | awk 'NF')
}

command -v dpkg-query >/dev/null ||
  fail "this is not a Debian system; install the counterparts of ${lists[*]}, then run cmake --preset release"

missing=$(missing_packages)
if [ -n "$missing" ]; then
  packages=$(awk '{print $1}' <<<"$missing" | sort -u)
  as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null ||
      fail "these packages are missing, and neither root nor sudo is at hand: $(echo $packages)"
    as_root=(sudo)
  fi
  echo "setup: installing $(echo $packages)"
  log=build/setup-apt.log
  apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300)
  # Package lists may be absent or stale: fetch them and try again before giving up.
  "${apt[@]}" install -y --no-install-recommends $packages >"$log" 2>&1 ||
    { "${apt[@]}" update >"$log" 2>&1 || true; "${apt[@]}" install -y --no-install-recommends $packages >>"$log" 2>&1; } ||
    fail "apt-get could not install them ($log):" "$log"
  missing=$(missing_packages)
  [ -z "$missing" ] || fail "packages are still not as needed: ${missing//$'\n'/; }"
fi

# --- Python environment ------------------------------------------------------------------------------------------

system_python=/usr/bin/python3

# python_environment FOLDER REQUIREMENTS: made anew where the list of packages, Python or the folder has changed.
python_environment() {
  local env=$1 requirements=$2 stamp wanted log
  stamp=$env/.requirements.sha256
  wanted=$({ sha256sum <"$requirements"; readlink -f $system_python; pwd; } | sha256sum)
  if [ -e "$stamp" ] && [ "$(<"$stamp")" = "$wanted" ]; then return; fi
  echo "setup: making the Python environment $env"
  log=build/setup-pip.log
  # pip trusts the authorities that this system trusts, not only its own list.
  export PIP_CERT=${PIP_CERT:-/etc/ssl/certs/ca-certificates.crt}
  rm -rf "$env"
  $system_python -m venv "$env" >"$log" 2>&1 || fail "python3 -m venv failed ($log):" "$log"
  "$env/bin/python" -m pip install -q --disable-pip-version-check --no-input --retries 5 \
    -r "$requirements" >>"$log" 2>&1 ||
    fail "pip could not install $requirements; is there a network? ($log):" "$log"
  echo "$wanted" >"$stamp"
}

python_environment build/python scripts/requirements.txt
for name in "${further[@]}"; do python_environment "build/python-$name" "scripts/requirements-$name.txt"; done
