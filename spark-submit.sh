#!/usr/bin/env bash
# Runs a job of xmcspark. The first run makes its own environment in .venv and builds the kernels; later runs
# only compare a hash, and start. See usage below.
set -euo pipefail
shopt -s nullglob

# Jobs: name | where it runs | extras it needs | what it does. "local" runs in the environment's python; "spark" runs by
# the real spark-submit, which gets the options after "--".
jobs=(
  "refresh|spark||from logs to a published model: all of the stages below, skipping what is finished"
  "ingest|spark||read new or changed days of the raw logs"
  "corpus|spark||make instances and labels from a window of days, or from a ready corpus"
  "augment|spark||add label texts as training instances, by what occurs together (Gandalf), if asked for"
  "vectorize|spark||learn the vocabulary and turn texts into sparse rows"
  "encode|spark||fine-tune the text encoder and embed all texts, if the method has one"
  "index|spark||compute label features and build the label tree"
  "train|spark||train the matchers of the tree"
  "predict|spark||predict the best labels of the test split"
  "evaluate|spark||measure the predictions"
  "publish|spark||make a run the one that is served, or roll back to one (--run ID)"
  "prune|spark||delete runs that are neither served nor kept"
  "compare|spark||compare two runs on the same instances, with a paired test (--run ID --with ID)"
  "fuse|spark||fuse the predictions of several runs into a run of its own (--runs ID,ID,...)"
  "plan|local||what a run will take, before it runs: units, memory, shuffles, hours, dollars (docs/plan.md)"
  "sql|spark||ask a run questions: its tables as views, its model as functions (-e QUERY, or a prompt)"
  "verify|local||compare every file of a bundle with its checksum (BUNDLE, or --root ROOT [--run ID])"
  "bench|local|bench|compare with PECOS, omikuji, napkinxc, scikit-learn, MKL on this machine"
  "package|local||write what a cluster needs: packed environment, jobs, configuration (docs/emr.md)"
  "config|local||print a configuration to start from, or check one and print it resolved"
)

root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
environment=$root/.venv
python=$environment/bin/python
stamp=$environment/xmcspark-stamp           # key of the environment, key of the kernels, extras: one line each
unfinished=$environment/xmcspark-unfinished # there while packages are being installed
log=$root/build/setup.log

usage() {
  cat <<'TEXT'
usage: ./spark-submit.sh JOB --config FILE [--date DAY] [--set KEY=VALUE ...] [-- options of spark-submit]
       ./spark-submit.sh setup [--extras test,bench,neural] [--python PYTHON]

setup only makes or updates the environment (.venv); any job does that by itself when needed.
Without options after "--", jobs run on this machine (local[*], conf/spark-local.conf).
Exit codes: 0 done, 1 failed, 2 wrong arguments or configuration, 3 this machine lacks something, 4 unusable input,
5 try again (lost machines, storage), 6 refused by a quality gate, 7 another publisher was faster.
Jobs (JOB --help lists the options):
TEXT
  local job
  for job in "${jobs[@]}"; do
    printf '  %-9s %s\n' "${job%%|*}" "${job##*|}"
  done
}

say() { printf 'xmcspark: %s\n' "$*" >&2; }

fail() { # fail EXIT-CODE MESSAGE...
  local code=$1
  shift
  printf 'xmcspark: %s\n' "$@" >&2
  exit "$code"
}

# ---- what the environment must match -------------------------------------------------------------------

digest() { # of the named files, names included
  if command -v sha256sum >/dev/null; then
    sha256sum -- "$@" | sha256sum | cut -c1-64
  else
    shasum -a 256 -- "$@" | shasum -a 256 | cut -c1-64
  fi
}

# The path is part of both: an environment does not survive being moved.
environment_key() { digest "$root/pyproject.toml" "$root/conf/constraints.txt"; }

kernels_key() { digest "$root/setup.py" "$root"/native/*.{pyx,pxd,h,py}; }

lines_of_stamp() { # into stamped_environment, stamped_kernels, stamped_extras
  stamped_environment='' stamped_kernels='' stamped_extras=''
  if [[ -r $stamp && -x $python ]]; then
    { read -r stamped_environment && read -r stamped_kernels && read -r stamped_extras; } <"$stamp" || true
  fi
}

write_stamp() { # write_stamp ENVIRONMENT KERNELS EXTRAS
  printf '%s\n' "$@" >"$stamp.new"
  mv "$stamp.new" "$stamp"
}

covers() { # covers HAVE WANTED: every item of WANTED is in HAVE; comma-separated
  local item
  for item in ${2//,/ }; do
    [[ ,$1, == *,$item,* ]] || return 1
  done
}

is_ready() { # is_ready EXTRAS
  lines_of_stamp
  [[ -n $stamped_kernels ]] && covers "$stamped_extras" "$1" &&
    [[ $stamped_environment == "$(environment_key)" && $stamped_kernels == "$(kernels_key)" ]]
}

# ---- set-up --------------------------------------------------------------------------------------------

version_ok='import sys; sys.exit(sys.version_info < (3, 11))'

find_python() { # prints the interpreter to build the environment from
  local candidate
  if [[ -n ${XMCSPARK_PYTHON:-} ]]; then
    "$XMCSPARK_PYTHON" -c "$version_ok" 2>/dev/null ||
      fail 3 "$XMCSPARK_PYTHON is not a Python 3.11 or newer." \
        "Give another one with --python or XMCSPARK_PYTHON, or leave both out."
    printf '%s\n' "$XMCSPARK_PYTHON"
    return
  fi
  for candidate in python3 python3.13 python3.12 python3.11 python; do
    if command -v "$candidate" >/dev/null && "$candidate" -c "$version_ok" 2>/dev/null; then
      printf '%s\n' "$candidate"
      return
    fi
  done
  local found
  found=$(python3 --version 2>/dev/null || printf 'no python3')
  fail 3 "Python 3.11 or newer is needed; found: $found." \
    "Install one (for example: apt install python3.11 python3.11-venv python3.11-dev)," \
    "or name it: ./spark-submit.sh setup --python /path/to/python3.11"
}

check_tools() { # check_tools PYTHON: everything that is missing, at once
  local missing=() compiler include
  "$1" -c 'import venv, ensurepip' 2>/dev/null ||
    missing+=("the venv module of $1 is missing: apt install python3-venv")
  compiler=${CXX:-$("$1" -c 'import sysconfig; print(sysconfig.get_config_var("CXX") or "g++")')}
  command -v "${compiler%% *}" >/dev/null ||
    missing+=("no C++ compiler (${compiler%% *}): apt install g++, or set CXX")
  include=$("$1" -c 'import sysconfig; print(sysconfig.get_path("include"))')
  [[ -r $include/Python.h ]] ||
    missing+=("Python.h is not in $include: apt install python3-dev")
  ((${#missing[@]} == 0)) || fail 3 "cannot set up:" "${missing[@]/#/- }"
}

logged() { # logged COMMAND...: output to the log, without the addresses of package indexes
  "$@" 2>&1 </dev/null |
    sed -E "s#(https?|file)://[^ ,'\")]*#<index>#g; s#host='[^']*'#host=<index>#g" >>"$log"
}

pip_install() {
  local why
  logged "$python" -m pip --disable-pip-version-check --no-input install -c "$root/conf/constraints.txt" "$@" && return
  why='a package could not be installed or built: the log has the details'
  if grep -qE 'NewConnectionError|Name or service|Temporary failure in name|ConnectTimeout|No matching distribution|ProxyError' "$log"; then
    why='packages could not be downloaded. Offline? Point pip at a mirror (PIP_INDEX_URL) or at a folder of wheels (PIP_FIND_LINKS, PIP_NO_INDEX=1)'
  elif grep -qi 'no space left' "$log"; then
    why='the disk is full'
  elif grep -qE 'error: command .* failed|CompileError' "$log"; then
    why='the kernels did not compile'
  fi
  grep -iE 'error|fatal' "$log" | tail -n 8 >&2 || true
  fail 1 "set-up failed: $why." "Log: $log" "Run the same command again to retry."
}

make_environment() { # make_environment EXTRAS
  local base
  if [[ -e $unfinished || ! -x $python ]] || ! "$python" -m pip --version >/dev/null 2>&1; then
    base=$(find_python)
    check_tools "$base"
    say "making the environment in $environment (once, a few minutes)"
    rm -rf "$environment"
    mkdir "$environment"
    : >"$unfinished" # first in, so that an interruption at any point is seen
    logged "$base" -m venv "$environment" ||
      fail 1 "$base -m venv failed. Log: $log"
  else
    check_tools "$python"
    "$python" -c "$version_ok" || fail 3 "$environment holds a Python older than 3.11: remove it and run again."
    say "updating the environment in $environment"
    : >"$unfinished"
  fi
  say "installing the build tools"
  pip_install 'setuptools>=77' wheel Cython
  say "building the kernels and installing the library${1:+ with $1}"
  pip_install --no-build-isolation -e "$root${1:+[$1]}"
  rm "$unfinished"
}

build_kernels() {
  say "building the kernels that changed"
  if ! (cd "$root" && logged "$python" setup.py build_ext --inplace); then
    grep -iE 'error|fatal' "$log" | tail -n 8 >&2 || true
    fail 1 "the kernels did not build. Log: $log"
  fi
}

lock() { # held until this process and what it started end, so that nothing meets the pip of a killed launcher
  exec 9>"$root/build/setup.lock"
  local take='import fcntl, sys; fcntl.flock(9, fcntl.LOCK_EX | (fcntl.LOCK_NB if sys.argv[1:] else 0))'
  if ! "$1" -c "$take" now 2>/dev/null; then
    say "another set-up of $root is running: waiting for it"
    "$1" -c "$take"
  fi
}

set_up() { # set_up EXTRAS
  is_ready "$1" && return
  mkdir -p "$root/build"
  local base extras started=$SECONDS
  base=$(find_python)
  lock "$base"
  is_ready "$1" && return # the launcher we waited for did it
  extras=$(tr ',' '\n' <<<"$stamped_extras,$1" | sed '/^$/d' | sort -u | paste -sd, -)
  local environment_now kernels_now
  environment_now=$(environment_key) kernels_now=$(kernels_key)
  : >"$log"
  # The linker may have been killed half-way through a file that looks new: build all of them again.
  [[ $stamped_kernels != building && ! -e $unfinished ]] || rm -rf "$root"/build/{lib,temp}.*
  # A checked build (XMCSPARK_DEBUG) never goes into the environment: .ci/run makes one beside it.
  unset XMCSPARK_DEBUG
  if [[ $stamped_environment == "$environment_now" ]] && covers "$stamped_extras" "$extras"; then
    write_stamp "$environment_now" building "$extras"
    build_kernels
  else
    rm -f "$stamp"
    make_environment "$extras"
  fi
  write_stamp "$environment_now" "$kernels_now" "$extras"
  say "ready after $((SECONDS - started)) s"
}

# ---- commands ------------------------------------------------------------------------------------------

setup_command() {
  local extras='' known
  while (($#)); do
    case $1 in
      --extras | --python)
        (($# > 1)) || fail 2 "setup: $1 needs a value"
        if [[ $1 == --extras ]]; then extras=$2; else export XMCSPARK_PYTHON=$2; fi
        shift 2
        ;;
      -h | --help) usage && exit 0 ;;
      *) fail 2 "setup: unknown option $1; it takes --extras and --python" ;;
    esac
  done
  known=test,bench,neural
  if [[ -n ${XMCSPARK_PYTHON:-} && -x $python ]]; then
    local want have
    want=$("$XMCSPARK_PYTHON" --version 2>/dev/null || true)
    have=$("$python" --version)
    [[ $want == "$have" ]] || fail 2 "$environment was made with $have, not ${want:-$XMCSPARK_PYTHON}." \
      "To change it, remove it first: rm -rf $environment"
  fi
  covers "$known" "$extras" || fail 2 "setup: --extras $extras: choose from $known"
  set_up "$extras"
}

run_local() { # run_local JOB ARGUMENTS...; -P: the user's folder must not hide our modules
  exec "$python" -P -c '
import runpy, sys
root, job = sys.argv[1:3]
del sys.argv[1:3]
sys.path.insert(0, root)
runpy.run_module(f"jobs.{job}", run_name="__main__", alter_sys=True)' "$root" "$@"
}

main() {
  case ${1:-} in
    '') usage >&2 && exit 2 ;;
    -h | --help | help) usage && exit 0 ;;
    setup)
      setup_command "${@:2}" # not in a && list: that would switch -e off inside
      exit 0
      ;;
  esac
  local row name kind extras
  for row in "${jobs[@]}"; do
    IFS='|' read -r name kind extras _ <<<"$row"
    [[ $name == "$1" ]] || continue
    set_up "$extras"
    exec 9>&- # the job may run for hours
    case $kind in
      local) run_local "$@" ;;
      spark) run_local submit "$@" ;;
    esac
  done
  printf 'xmcspark: there is no job %s\n\n' "$1" >&2
  usage >&2
  exit 2
}

main "$@"
