# shellcheck shell=bash
# Sourced by ./demo and ./test: the packages from Debian and PyPI, progress, and messages on the terminal.

# ---------------------------------------------------------------------------------------------------------------------
# Packages

# The packages that build and run ./demo, one per row. "-": the system has no such package.
#  Debian, Ubuntu           Fedora (dnf)            Arch (pacman)   macOS (brew)
demo_rows=(
  "g++                      gcc-c++                 gcc             -"
  "cmake                    cmake                   cmake           cmake"
  "ninja-build              ninja-build             ninja           ninja"
  "ccache                   ccache                  ccache          ccache"
  "pkg-config               pkgconf-pkg-config      pkgconf         pkgconf"
  "libfmt-dev               fmt-devel               fmt             fmt"
  "libcli11-dev             cli11-devel             cli11           cli11"
  "nlohmann-json3-dev       json-devel              nlohmann-json   nlohmann-json"
  "libexpected-dev          expected-devel          tl-expected     -"
  "libisal-dev              isa-l-devel             isa-l           isa-l"
  "libpcap-dev              libpcap-devel           libpcap         libpcap"
  "zlib1g-dev               zlib-devel              zlib            zlib"
  "libzstd-dev              libzstd-devel           zstd            zstd"
  "libibverbs-dev           rdma-core-devel         rdma-core       -"
  "librdmacm-dev            rdma-core-devel         rdma-core       -"
  "libssl-dev               openssl-devel           openssl         openssl@3"
  "liblwip-dev              -                       -               -"
  "libpugixml-dev           pugixml-devel           pugixml         pugixml"
  "pybind11-dev             pybind11-devel          pybind11        pybind11"
  "python3-dev              python3-devel           python          python"
  "libjs-chart.js           -                       -               -"
  "libjs-jquery             -                       -               -"
  "libjs-jquery-datatables  -                       -               -"
)
packages_demo=("${demo_rows[@]%% *}")

# Additional packages: "test" of ./test, "window" of scripts/wireshark-pictures (a Wireshark window without a screen),
# "bench" of the preset bench, "docs" of scripts/site. "name?": omitted if apt does not know the package.
# shellcheck disable=SC2034 # read by install_lists
packages_test=(
  libgtest-dev libgmock-dev
  libwireshark-dev libwiretap-dev libwsutil-dev libglib2.0-dev
  clang libclang-rt-dev clang-format clang-tidy
  python3 python3-venv ca-certificates
  tshark wireshark-common zstd
  qemu-system-x86 apt xz-utils make gcc cpio
  iproute2 iputils-ping procps util-linux
  ibverbs-utils perftest python3-pyverbs rdma-core
  tcpreplay valgrind
  groff man-db mandoc zsh fish
  "chromium?" "chromium-driver?"
  shellcheck debootstrap
)
# shellcheck disable=SC2034 # read by install_lists
packages_window=(
  wireshark xvfb xdotool imagemagick
)
# shellcheck disable=SC2034 # read by install_lists
packages_package=(
  dpkg-dev fakeroot file lintian rpm rpm2cpio cpio
  python3 python3-venv ca-certificates
  libwireshark-dev libwiretap-dev libwsutil-dev libglib2.0-dev
)
# shellcheck disable=SC2034 # read by install_lists
packages_bench=(
  libbenchmark-dev libtins-dev
)
# shellcheck disable=SC2034 # read by install_lists
packages_docs=(
  doxygen python3 python3-venv ca-certificates
)

supported_systems="Debian 12, Debian 13 and Ubuntu 24.04"

# ---------------------------------------------------------------------------------------------------------------------
# The terminal

if [[ -t 1 && -z ${NO_COLOR:-} ]]; then
  bold=$'\e[1m' dim=$'\e[2m' red=$'\e[31m' green=$'\e[32m' yellow=$'\e[33m' plain=$'\e[0m'
else
  # shellcheck disable=SC2034 # used by the scripts that source this file
  bold='' dim='' red='' green='' yellow='' plain=''
fi

# The command that the user typed, for messages that advise to repeat it.
this_command=./${0##*/}

die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 3
}

# minutes SECONDS: prints the duration as m:ss.
minutes() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

# free_megabytes DIRECTORY: prints the space that is available to an ordinary user.
free_megabytes() { df -Pk "$1" | awk 'NR == 2 { printf "%d", $4 / 1024 }'; }

# require_space DIRECTORY MEGABYTES PURPOSE: ends the script if the file system has less free space.
require_space() {
  local free
  free=$(free_megabytes "$1")
  ((free >= $2)) ||
    die "$3 needs $2 MB of free disk space in $(cd "$1" && pwd), and $free MB are free: free some, then run $this_command again"
}

# job_count: prints the number of parallel processes: one per core, and at most one per 1.2 GB of available memory.
job_count() {
  local jobs memory
  if [[ ${RDMAWIRE_JOBS:-} ]]; then
    printf '%s' "$RDMAWIRE_JOBS"
    return
  fi
  jobs=$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)
  memory=$(awk '$1 == "MemAvailable:" { printf "%d", $2 / 1200000 }' /proc/meminfo 2>/dev/null) || memory=''
  [[ ! $memory ]] || ((jobs <= memory)) || jobs=$((memory > 0 ? memory : 1))
  printf '%s' "$jobs"
}

# ---------------------------------------------------------------------------------------------------------------------
# Packages of Debian and Ubuntu

# missing_packages NAME...: prints the packages that are not installed.
missing_packages() {
  local installed name
  # dpkg-query exits with status 1 if it does not know one of the names, but still lists the others.
  installed=$(dpkg-query --show --showformat='${db:Status-Abbrev}:${Package}:\n' "${@%\?}" 2>/dev/null) || true
  for name in "$@"; do
    [[ $installed == *"ii :${name%\?}:"* ]] || printf '%s\n' "$name"
  done
}

# known_packages NAME...: prints the packages that apt can install.
known_packages() {
  LC_ALL=C apt-cache policy "$@" 2>/dev/null |
    awk '/^[^ ]/ { sub(/:$/, ""); name = $0 } /^  Candidate:/ && $2 != "(none)" { print name }'
}

# install_packages NAME...: installs the missing packages. Uses apt and the network only if a package is missing.
install_packages() {
  [[ ${RDMAWIRE_INSTALL:-yes} != no ]] || return 0
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    require_tools
    return 0
  fi
  local missing required optional
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]})) || return 0
  mapfile -t required < <(printf '%s\n' "${missing[@]}" | grep -v '?$')
  mapfile -t optional < <(printf '%s\n' "${missing[@]%\?}" | grep -vxF -f <(printf '%s\n' "${required[@]}"))
  if ((${#required[@]} == 0)); then
    ((${#optional[@]})) && mapfile -t optional < <(known_packages "${optional[@]}")
    ((${#optional[@]})) || return 0
  fi

  as_root=()
  if (($(id -u) != 0)); then
    command -v sudo >/dev/null ||
      die "packages are missing and there is no sudo: as root, run 'apt-get install ${required[*]}', then $this_command again"
    as_root=(sudo)
    [[ -t 0 ]] || as_root+=(--non-interactive)
    "${as_root[@]}" true 2>/dev/null ||
      die "packages are missing and sudo refused: as root, run 'apt-get install ${required[*]}', then $this_command again"
  fi
  require_space / 1000 "the installation of packages"
  mkdir -p build
  : >build/apt.log
  printf 'reading the package lists\n'
  run_apt update || die_of_apt
  local known unknown
  mapfile -t known < <(known_packages "${required[@]}" "${optional[@]}")
  mapfile -t unknown < <(printf '%s\n' "${required[@]}" | grep -vxF -f <(printf '%s\n' "${known[@]}"))
  if [[ ${unknown[0]:-} ]]; then
    # Without the package lists of its mirror, apt knows no packages.
    ! grep -qE "$apt_network_errors" build/apt.log || die_of_apt
    die "the packages ${unknown[*]} do not exist for $(system_name): use $supported_systems, or install their" \
      "equivalents and run RDMAWIRE_INSTALL=no $this_command"
  fi
  printf 'installing %d packages: %s\n' "${#known[@]}" "${known[*]}"
  run_apt install --yes --no-install-recommends "${known[@]}" || die_of_apt
}

# run_apt ARGUMENT...: runs apt-get as root, shows its progress, and writes its output to build/apt.log. apt-get ignores
# an interruption and completes, so that no package is left half-installed.
run_apt() {
  trap 'printf "\n%s: interrupted; apt-get completes in the background\n" "${0##*/}" >&2; exit 130' INT
  local status=0 apt
  "${as_root[@]}" env LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0 \
    "$@" </dev/null >>build/apt.log 2>&1 &
  apt=$!
  follow_apt "$apt"
  wait "$apt" || status=$?
  trap - INT
  return "$status"
}

# follow_apt PROCESS: prints the progress every 15 seconds until the process ends.
follow_apt() {
  local ticks=0 line
  while kill -0 "$1" 2>/dev/null; do
    sleep 0.2
    ((++ticks % 75 == 0)) || continue
    line=$(tr '\r' '\n' <build/apt.log | awk '
      / upgraded, [0-9]+ newly installed/ { total = $3 }
      /^Need to get / { size = $4 " " $5; sub(/\/.*/, "", size) }
      /^Get:/ { ++fetched }
      /^Unpacking / { ++unpacked }
      /^Setting up / { ++ready }
      !/^$/ { locked = /^Waiting for cache lock/ }
      locked { lock = $0; sub(/^.*held by/, "waiting for", lock); sub(/\.\.\..*/, "", lock) }
      END {
        if (locked) print lock " to release the package database"
        else if (unpacked >= total && ready) print "set up " (ready < total ? ready : total) " of " total " packages"
        else if (unpacked) print "unpacked " unpacked " of " total " packages"
        else if (total && fetched) print "downloaded " fetched " files (" size " in all)"
      }')
    [[ ! $line ]] || printf '  %s\n' "$line"
  done
}

apt_network_errors='Temporary failure resolving|Could not resolve|[Uu]nable to connect|Could not connect|[Cc]onnection (timed out|failed|refused)|Network is unreachable|Failed to fetch|Unable to fetch'

# die_of_apt: ends the script with one sentence about the error in build/apt.log.
die_of_apt() {
  local log=build/apt.log again="then run $this_command again" sudo=${as_root[0]:-} holder package reason
  sudo=${sudo:+sudo }
  if grep -qE 'Could not get lock|Unable to acquire the dpkg frontend lock|Unable to lock directory' "$log"; then
    holder=$(sed -nE 's/.*held by process ([0-9]+) \(([^)]*)\).*/ (\2, process \1)/p' "$log" | tail -n 1)
    reason="another program uses the package database$holder: wait for its end, $again"
  elif grep -q 'dpkg was interrupted' "$log"; then
    reason="an earlier installation was interrupted: run '${sudo}dpkg --configure -a', $again"
  elif grep -qE "No space left on device|don't have enough free space" "$log"; then
    reason="the disk is full: free at least 1 GB in / and /var, $again"
  elif grep -qE "$apt_network_errors" "$log"; then
    reason="the package mirror cannot be reached: check the network and apt's proxy setting, $again"
  elif grep -qE 'unmet dependencies|held broken packages' "$log"; then
    reason="apt finds conflicting versions: run '${sudo}apt-get --fix-broken install', $again"
  elif grep -q 'dpkg returned an error code' "$log"; then
    package=$(sed -nE 's/^dpkg: error processing (package|archive) ([^ ]+).*/\2/p' "$log" | head -n 1)
    reason="dpkg failed at ${package:-a package}: run '${sudo}apt-get --fix-broken install', $again"
  else
    tail -n 5 "$log" >&2
    reason="apt-get failed: correct the error above, $again"
  fi
  die "$reason (log: $log)"
}

# ---------------------------------------------------------------------------------------------------------------------
# Other systems

system_name() {
  local name
  name=$(sed -nE 's/^PRETTY_NAME="?([^"]*)"?$/\1/p' /etc/os-release 2>/dev/null) || true
  printf '%s' "${name:-$(uname -s)}"
}

# install_advice: prints the command that installs the packages on a system without apt.
install_advice() {
  local column command row names=() absent=() cells
  if [[ $(uname -s) == Darwin ]]; then
    column=3 command='brew install'
  elif command -v dnf >/dev/null; then
    column=1 command='sudo dnf install'
  elif command -v pacman >/dev/null; then
    column=2 command='sudo pacman -S --needed'
  else
    printf "install the equivalents of these Debian packages: %s" "${packages_demo[*]}"
    return
  fi
  for row in "${demo_rows[@]}"; do
    read -ra cells <<<"$row"
    if [[ ${cells[column]} == - ]]; then
      absent+=("${cells[0]}")
    else
      [[ " ${names[*]-} " == *" ${cells[column]} "* ]] || names+=("${cells[column]}")
    fi
  done
  printf "run '%s %s'" "$command" "${names[*]}"
  ((${#absent[@]} == 0)) || printf ' and install the equivalents of these Debian packages from source: %s' "${absent[*]}"
}

# require_system: ends the script on a system or shell that it does not support. The code up to this call may use only
# features of bash 3.2, the shell of macOS.
require_system() {
  [[ $(uname -s) == Linux ]] ||
    die "$this_command needs Linux, and this is $(uname -s): run it in a container or virtual machine with Debian 13;" \
      "to compile the portable parts here, $(install_advice)"
  ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 404)) || die "bash $BASH_VERSION is too old: install bash 4.4 or newer"
}

# require_tools: on a system without apt, ends the script if a program that configures or builds is missing. CMake
# checks libraries.
require_tools() {
  local tool missing=()
  for tool in cmake ninja ccache pkg-config "${CXX:-c++}" python3; do
    command -v "$tool" >/dev/null || missing+=("$tool")
  done
  ((${#missing[@]} == 0)) ||
    die "this is $(system_name), where packages have to be installed by hand (missing: ${missing[*]}): $(install_advice)," \
      "then run $this_command again"
  printf 'this is %s: using the installed packages\n' "$(system_name)"
}

# at_least VERSION MINIMUM
at_least() { [[ $(printf '%s\n' "$2" "$1" | sort -V | head -n 1) == "$2" ]]; }

# check_tools: ends the script if the compiler or CMake is too old.
check_tools() {
  local compiler=${CXX:-c++} version clang gcc
  command -v "$compiler" >/dev/null || die "there is no C++ compiler \"$compiler\": install g++, or set CXX to a compiler"
  read -r clang gcc < <(printf '__clang_major__ __GNUC__\n' | "$compiler" -E -P -x c++ - 2>/dev/null | tail -n 1)
  if [[ $clang =~ ^[0-9]+$ ]]; then
    ((clang >= 14)) || die "the compiler $compiler is clang $clang, which is too old: install clang 14 or gcc 12, or newer, and set CXX"
  elif [[ $gcc =~ ^[0-9]+$ ]]; then
    ((gcc >= 12)) || die "the compiler $compiler is gcc $gcc, which is too old: install gcc 12 or clang 14, or newer, and set CXX"
  else
    die "the compiler $compiler does not compile an empty file: check the environment variable CXX"
  fi
  version=$(cmake --version 2>/dev/null | sed -nE '1s/.* ([0-9.]+).*/\1/p')
  [[ $version ]] || die "cmake does not run: install CMake 3.25 or newer"
  at_least "$version" 3.25 || die "CMake $version is too old: install CMake 3.25 or newer ($supported_systems have it)"
}

# ---------------------------------------------------------------------------------------------------------------------
# The build

# build_preset PRESET LOG [CMAKE_BUILD_ARGUMENT...]: configures and builds, with progress. Returns the status of the build.
build_preset() {
  local preset=$1 log=$2 remaining=-
  shift 2
  mkdir -p build
  cmake --preset "$preset" >"$log" 2>&1 || {
    grep -A 12 'CMake Error' "$log" >&2 || tail -n 20 "$log" >&2
    command -v apt-get >/dev/null || printf 'packages are missing? %s\n' "$(install_advice)" >&2
    return 1
  }
  # Ninja estimates the remaining time since version 1.12.
  at_least "$(ninja --version)" 1.12 && remaining=%W
  # The first status of the pipeline is that of the build.
  local status=0
  NINJA_STATUS="@ %f %t $remaining " cmake --build --preset "$preset" --parallel "$(job_count)" "$@" 2>&1 |
    tee -a "$log" | build_progress || status=${PIPESTATUS[0]}
  ((status == 0)) || build_errors "$log" >&2
  return "$status"
}

# build_errors LOG: prints the output of the failed steps, at most 60 lines.
build_errors() {
  if grep -q '^FAILED: ' "$1"; then
    awk '/^@ / { shown = 0 } /^FAILED: / { shown = 1 } shown' "$1" | cut -c1-240 | head -n 60
    ! grep -q 'No space left on device' "$1" || printf 'the disk is full: free some space, then run %s again\n' "$this_command"
    ! grep -qE 'Killed signal|out of memory' "$1" ||
      printf 'a compiler ran out of memory: run RDMAWIRE_JOBS=1 %s\n' "$this_command"
  else
    tail -n 20 "$1"
  fi
}

# build_progress: reads the output of ninja, whose status lines start with "@ FINISHED TOTAL REMAINING". Rewrites one line on
# a terminal. Otherwise prints a line after $progress_percent or 10 seconds, whichever is later.
progress_percent=5
build_progress() {
  local line finished total remaining step percent elapsed text terminal='' began=$SECONDS last_percent=0 last_second=0 width
  [[ -t 1 ]] && terminal=yes
  width=$(tput cols 2>/dev/null) || width=80
  while IFS= read -r line; do
    [[ $line == '@ '* ]] || continue
    read -r _ finished total remaining step <<<"$line"
    percent=$((100 * finished / total)) elapsed=$((SECONDS - began))
    if [[ $remaining == - || $remaining == '?' ]]; then
      remaining=''
      ((elapsed < 5 || percent < 2)) || remaining=$(minutes $((elapsed * (total - finished) / finished)))
    fi
    step=${step#Building CXX object } step=${step#Linking CXX } step=${step%.o}
    [[ $step != */CMakeFiles/*.dir/* ]] || step=${step%%/CMakeFiles/*}/${step##*.dir/}
    [[ $step != */Unity/unity_* ]] || { step=${step/\/Unity\/unity_/, part }; step=${step%_cxx*}; }
    text=$(printf '%3d %%  %d of %d  %s%s' "$percent" "$finished" "$total" "${remaining:+$remaining left  }" "$step")
    if [[ $terminal ]]; then
      printf '\r%s\e[K' "${text:0:width - 1}"
    elif ((percent >= last_percent + progress_percent && elapsed >= last_second + 10)); then
      printf '  %s\n' "$text"
      last_percent=$percent last_second=$elapsed
    fi
  done
  [[ ! $terminal ]] || printf '\r\e[K'
}

# ---------------------------------------------------------------------------------------------------------------------
# Python

# make_venv: creates .venv with the pinned packages of requirements-dev.txt.
make_venv() { install_requirements .venv requirements-dev.txt; }

# install_requirements DIRECTORY FILE: creates a virtual environment with the pinned packages of the file. Recreates it when
# Python or the file changes. A failure leaves the earlier one.
install_requirements() {
  local venv=$1 requirements=$2
  local python=/usr/bin/python3 wanted new=$venv.new log=build/venv.log reason
  wanted=$("$python" --version; cat "$requirements")
  [[ -x $venv/bin/python && -f $venv/requirements && $(<"$venv/requirements") == "$wanted" ]] && return 0
  printf 'installing %d Python packages in %s\n' "$(grep -cEv '^ *(#|$)' "$requirements")" "$venv"
  mkdir -p build
  rm -rf "$new"
  if ! { "$python" -m venv "$new" && "$new/bin/pip" install --disable-pip-version-check --progress-bar off \
    --requirement "$requirements"; } </dev/null >"$log" 2>&1; then
    rm -rf "$new"
    if grep -q 'No space left on device' "$log"; then
      reason="the disk is full: free 2 GB"
    elif grep -qE 'NewConnectionError|Temporary failure in name resolution|Connection (refused|broken)|timed out|ConnectTimeout' "$log"; then
      reason="the Python package index cannot be reached: check the network and pip's proxy setting"
    elif grep -q 'ensurepip' "$log"; then
      reason="Python's venv module is incomplete: install python3-venv"
    else
      reason=$(grep -m 1 '^ERROR: ' "$log") || reason="see the log"
      reason="pip failed (${reason#ERROR: })"
    fi
    die "$reason, then run $this_command again (log: $log)"
  fi
  printf '%s\n' "$wanted" >"$new/requirements"
  # The scripts in the environment contain its path.
  grep -rlI --null -- "$PWD/$new" "$new/bin" "$new/pyvenv.cfg" | xargs -0 sed -i "s#$PWD/$new#$PWD/$venv#g"
  rm -rf "$venv"
  mv "$new" "$venv"
}

# ---------------------------------------------------------------------------------------------------------------------

# install_lists LIST...: installs the packages of these lists: demo, test, window, package, bench, docs.
install_lists() {
  local list names=()
  require_system
  for list in "$@"; do
    case $list in
      demo | test | window | package | bench | docs) ;;
      *)
        printf 'usage: bash scripts/setup.sh demo|test|window|package|bench|docs...    (installs these package lists)\n' >&2
        exit 2
        ;;
    esac
    local -n packages=packages_$list
    names+=("${packages[@]}")
  done
  install_packages "${names[@]}"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
  set -euo pipefail
  this_command="bash scripts/setup.sh $*"
  cd "$(dirname "$0")/.."
  install_lists "${@:-help}"
fi
