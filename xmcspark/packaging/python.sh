#!/usr/bin/env bash
# bin/python of the packed environment. The machine's own Python runs it, found here and not where the archive was built;
# the packages are those of the archive. XMCSPARK_BASE_PYTHON names another one.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
version=@PYTHON@
if [[ $(uname -m) != @MACHINE@ ]]; then
  echo "xmcspark: this archive was built for @MACHINE@ and $(hostname) is $(uname -m): run 'package' on such a machine" >&2
  exit 3
fi
# Of an archive made with --with-python, whose interpreter may need its own shared library.
[[ ! -d $here/base/lib ]] || export LD_LIBRARY_PATH=$here/base/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
# Prints two lines, executable and home, if it is the right version.
tell='import sys
if sys.version_info[:2] == tuple(map(int, sys.argv[1].split("."))):
    print(getattr(sys, "_base_executable", sys.executable), sys.base_prefix + ":" + sys.base_exec_prefix, sep="\n")'
candidates=("$here/base/bin/python$version" "python$version" python3 {/usr,/usr/local}/bin/"python$version")
[[ -z ${XMCSPARK_BASE_PYTHON:-} ]] || candidates=("$XMCSPARK_BASE_PYTHON")
for candidate in "${candidates[@]}"; do
  { read -r base && read -r home; } < <("$candidate" -I -S -c "$tell" "$version" 2>/dev/null) && break
  base=
done
if [[ -z $base ]]; then
  echo "xmcspark: $(hostname) has no Python $version; tried ${candidates[*]}: install it, name it with" \
    "XMCSPARK_BASE_PYTHON, or build the archive with --with-python" >&2
  exit 3
fi
# The home is named because an interpreter under another name would look for its library around that name.
export PYTHONHOME=$home PYTHONNOUSERSITE=1
export PYTHONPATH=$here/lib/python$version/site-packages${PYTHONPATH:+:$PYTHONPATH}
exec -a "$here/bin/python" "$base" "$@"
