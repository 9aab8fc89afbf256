# Sourced by ./demo and ./test: what the house needs from Debian 12 and from PyPI, and how a terminal is spoken to.

# The packages, in one place. "build" configures and builds the presets dev and release, "check" is what ./test adds,
# "window" what scripts/wireshark-pictures needs for a Wireshark window without a screen (./test --full).
packages_build=(
  g++ cmake ninja-build ccache pkg-config
  libfmt-dev libcli11-dev nlohmann-json3-dev libexpected-dev libisal-dev libpcap-dev zlib1g-dev libzstd-dev
  libibverbs-dev librdmacm-dev libsodium-dev liblwip-dev
  libpugixml-dev
  pybind11-dev python3-dev
  libwireshark-dev libwiretap-dev libwsutil-dev libglib2.0-dev
  libgtest-dev libgmock-dev libbenchmark-dev libtins-dev
  libjs-chart.js libjs-jquery libjs-jquery-datatables
)
packages_check=(
  clang libclang-rt-14-dev clang-format clang-tidy
  python3 python3-venv ca-certificates
  tshark wireshark-common zstd
  qemu-system-x86 apt xz-utils make gcc cpio
  iproute2 iputils-ping procps util-linux
  ibverbs-utils perftest python3-pyverbs rdma-core
  tcpreplay
  chromium chromium-driver
)
packages_window=(
  wireshark xvfb xdotool imagemagick
)

if [[ -t 1 && -z ${NO_COLOR:-} ]]; then
  bold=$'\e[1m' dim=$'\e[2m' red=$'\e[31m' green=$'\e[32m' yellow=$'\e[33m' plain=$'\e[0m'
else
  bold='' dim='' red='' green='' yellow='' plain=''
fi

die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 3
}

# missing_packages NAME...: those of the names that dpkg does not have installed.
missing_packages() {
  local installed name
  # dpkg-query exits with status 1 if it does not know one of the names, but still lists the others.
  installed=$(dpkg-query --show --showformat='${db:Status-Abbrev}:${Package}:\n' "$@" 2>/dev/null) || true
  for name in "$@"; do
    [[ $installed == *"ii :$name:"* ]] || printf '%s\n' "$name"
  done
}

# install_packages NAME...: installs what is missing. When nothing is, neither apt nor the network is touched.
install_packages() {
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    printf 'This is not a Debian machine. Going on with what is there; needed are: %s\n' "$*"
    return 0
  fi
  local missing
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]})) || return 0

  local as_root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null ||
      die "these packages are missing, and installing them takes root or sudo: apt-get install ${missing[*]}"
    as_root=(sudo)
    [[ -t 0 ]] || as_root+=(--non-interactive)
    "${as_root[@]}" true ||
      die "these packages are missing, and sudo refused: apt-get install ${missing[*]}"
  fi
  printf 'installing %d Debian packages: %s\n' "${#missing[@]}" "${missing[*]}"
  mkdir -p build
  local log=build/apt.log
  {
    "${as_root[@]}" apt-get -o DPkg::Lock::Timeout=300 update &&
      "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 \
        install --yes --no-install-recommends "${missing[@]}"
  } </dev/null >"$log" 2>&1 || {
    tail -n 15 "$log" >&2
    die "apt-get could not install ${missing[*]} (the whole story is in $log)"
  }
}

# make_venv: .venv from Debian's own python3 with the pinned requirements; made again only when they change.
make_venv() {
  local python=/usr/bin/python3 stamp=.venv/requirements wanted
  wanted=$("$python" --version; cat requirements-dev.txt)
  [[ -x .venv/bin/python && -f $stamp && $(<"$stamp") == "$wanted" ]] && return 0
  printf 'making .venv: %s\n' "$(grep -Ev '^ *(#|$)' requirements-dev.txt | tr '\n' ' ')"
  rm -rf .venv
  "$python" -m venv .venv
  .venv/bin/pip install --quiet --disable-pip-version-check --requirement requirements-dev.txt </dev/null
  printf '%s\n' "$wanted" >"$stamp"
}

# job_count: how many processes to run at once.
job_count() { printf '%s' "${RDMAWIRE_JOBS:-$(nproc)}"; }
