# Shared by the scripts of this folder, which source it: packages, configuration, building.
# Everything here speaks on stderr; stdout belongs to the program.

set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

build_packages=(g++ cmake ninja-build git libcli11-dev libfmt-dev nlohmann-json3-dev libopenblas-dev libhwy-dev
  libgtest-dev libgmock-dev)
wheel_packages=(python3 python3-venv)
test_packages=(python3-jsonschema python3-numpy)

# The script's name, for what it says.
say() { echo "$(basename "$0"): $*" >&2; }
fail() {
  say "$*"
  exit 3
}

# need PACKAGE...: installs what is missing of them, or says how to.
need() {
  if ! command -v dpkg-query >/dev/null; then
    return 0 # no Debian: configuration names what it misses
  fi
  local installed missing=() package
  installed=" $(dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' "$@" 2>/dev/null | sed -n 's/^ii *//p' | tr '\n' ' ' || true)"
  for package in "$@"; do
    case $installed in *" $package "*) ;; *) missing+=("$package") ;; esac
  done
  if [ ${#missing[@]} -eq 0 ]; then return 0; fi

  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null || { ! sudo -n true 2>/dev/null && ! [ -t 0 ]; }; then
      fail "packages are missing: apt-get install ${missing[*]}"
    fi
    as_root=(sudo)
  fi
  say "installing ${missing[*]}"
  local log
  log=$(mktemp)
  if ! { "${as_root[@]}" apt-get update -q && "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -q -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 </dev/null; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    fail "could not install: apt-get install ${missing[*]}"
  fi
  rm -f "$log"
}

nvcc_path() {
  command -v nvcc || { [ -x /usr/local/cuda/bin/nvcc ] && echo /usr/local/cuda/bin/nvcc; }
}
has_nvcc() { nvcc_path >/dev/null; }

# What the choice of compilers depends on: another answer than at the last configuration makes a fresh one.
toolchain() {
  local path
  for path in "$(command -v c++)" "$(command -v cmake)" "$(command -v ninja)" "$(nvcc_path)"; do
    if [ -n "$path" ]; then stat -L -c '%n %Y' "$path"; else echo none; fi
  done
  ls -d "$root"/.venv/lib/python3*/site-packages/include/cudnn_frontend.h 2>/dev/null || true
}

# ninja's lines as one that is rewritten, on a terminal; elsewhere only that it builds, and what fails.
show_progress() {
  local line announced=false
  while IFS= read -r line; do
    if [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]]; then
      # The step that looks up the version comes first, and with it only what a new version would change.
      if [ "${BASH_REMATCH[1]}" -le 1 ] && [ "${BASH_REMATCH[2]}" -le 4 ]; then continue; fi
      if [ -t 2 ]; then
        printf '\r\033[K%s: building %s of %s' "$(basename "$0")" "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" >&2
      elif ! $announced; then
        say "building (the first time takes minutes)"
      fi
      announced=true
    fi
  done
  if $announced && [ -t 2 ]; then printf '\r\033[K' >&2; fi
}

# build PRESET FOLDER TARGET...: configures where that is due and builds.
build() {
  local preset=$1 folder=$root/$2
  shift 2
  mkdir -p "$folder"
  exec 9>"$folder/.lock"
  flock 9 # two calls at once take turns
  local log=$folder/build.log chosen
  chosen=$(toolchain)
  if ! [ -f "$folder/build.ninja" ] || [ "$chosen" != "$(cat "$folder/.toolchain" 2>/dev/null)" ]; then
    rm -rf "$folder/CMakeCache.txt" "$folder/CMakeFiles"
    if ! (cd "$root" && cmake --preset "$preset") >"$log" 2>&1 9>&-; then
      tail -n 30 "$log" >&2
      fail "configuration failed (all of it: $log)"
    fi
    grep -E '^-- flashbench: ' "$log" | sed "s/^-- flashbench: /$(basename "$0"): /" >&2 || true
    echo "$chosen" >"$folder/.toolchain"
  fi
  if ! NINJA_STATUS='[%f/%t] ' ninja -C "$folder" "$@" 2>&1 9>&- | tee "$log" | show_progress; then
    sed -n '/^FAILED/,/^\[/p' "$log" | grep -v '^\[' | head -n 60 >&2
    fail "the build failed (all of it: $log)"
  fi
  exec 9>&-
}

# need_wheels REQUIREMENTS: installs the pinned packages of that file of this folder into .venv. Fails quietly.
need_wheels() {
  local wanted=$root/scripts/$1 stamp=$root/.venv/$1
  if cmp -s "$wanted" "$stamp"; then return 0; fi
  say "installing $(sed '/^#/d' "$wanted" | tr '\n' ' ')into .venv"
  { [ -x "$root/.venv/bin/pip" ] || python3 -m venv "$root/.venv"; } >/dev/null 2>&1 &&
    "$root/.venv/bin/pip" install -q --no-deps --disable-pip-version-check -r "$wanted" >/dev/null 2>&1 &&
    cp "$wanted" "$stamp"
}

# What a build needs.
need_build() {
  local packages=("${build_packages[@]}")
  if has_nvcc; then packages+=("${wheel_packages[@]}"); fi
  need "${packages[@]}"
  if has_nvcc && ! need_wheels requirements-cuda.txt; then
    say "could not install the headers of cudnn-frontend; building without the implementation cudnn"
  fi
}
