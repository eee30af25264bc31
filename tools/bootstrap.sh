#!/usr/bin/env bash
# Brings a fresh Debian-like machine (Python >= 3.11, git, make) to where Cohort can be built, shown and tested.
#
#   tools/bootstrap.sh venv    uv, .venv from uv.lock, the wheel built from this tree and installed into it
#   tools/bootstrap.sh yyjson  the source of the JSON parser, of one release, in .cache/sources: what a wheel is compiled from
#   tools/bootstrap.sh java    a Java 17 runtime (for Spark)
#   tools/bootstrap.sh jdk     a Java 17 with its compiler (for what asks Kafka's own classes, in tests and benchmarks)
#   tools/bootstrap.sh jars    java, Maven, and the jars that tests and benchmark need, in .cache/jars
#   tools/bootstrap.sh newest  .venv-newest: the same with the newest PySpark 4 there is
#   tools/bootstrap.sh oldest  .venv-oldest: the same with the oldest dependencies that pyproject.toml allows
#   tools/bootstrap.sh hosts   ip and iptables, with which one test makes a network of its own
#   tools/bootstrap.sh prometheus  Prometheus and promtool, in .cache/prometheus, with which rules and dashboard are tested
#   tools/bootstrap.sh chromium  Debian's Chromium, in which the live page is tested
#   tools/bootstrap.sh wheels  .venv-wheels: the compiler and the auditors of the wheels that ship
#   tools/bootstrap.sh foreign  in .cache/foreign: an emulator, a Python for ARM, and musl, which load those wheels
#   tools/bootstrap.sh uv ...  uv with these arguments, and the certificates that pip has
#
# Quick when all is there.  Package indexes, mirrors and certificates are those that pip, uv, Maven and apt are set up
# for on the machine.  What can't be installed without asking is named in one line, with exit status 1.
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHON=${PYTHON:-python3}
CACHE=$PWD/.cache
export PIP_DISABLE_PIP_VERSION_CHECK=1 DEBIAN_FRONTEND=noninteractive UV_PYTHON_DOWNLOADS=never
export UV_COMPILE_BYTECODE=1 # as pip does: every start of a Python is a second longer where nothing may be written later

say() { printf '%s\n' "bootstrap: $*" >&2; }
die() { say "$*"; exit 1; }
have() { type -P "$1" >/dev/null 2>&1; } # a program: a function of this file has the name of what it installs

# --- Debian's packages, where we may ---------------------------------------------------------------

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

may_install() {
  have apt-get && { [ "$(id -u)" = 0 ] || { have sudo && sudo -n true 2>/dev/null; }; }
}

apt_install() { # apt_install PACKAGE... : true when all of them are installed afterwards
  may_install || return 1
  say "installing $*"
  mkdir -p "$CACHE"
  { as_root apt-get install -y -q --no-install-recommends "$@" ||
    { as_root apt-get update -q && as_root apt-get install -y -q --no-install-recommends "$@"; }; } \
    >"$CACHE/apt.log" 2>&1 && return 0
  tail -5 "$CACHE/apt.log" >&2
  return 1
}

# --- uv and the environment ------------------------------------------------------------------------

check_python() {
  have "$PYTHON" || die "needs Python >= 3.11: install python3"
  "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    die "needs Python >= 3.11, and $PYTHON is $("$PYTHON" -V 2>&1): set PYTHON to a newer one"
}

make_uv_home() { # a private environment for uv alone: the system's Python stays as it is (PEP 668)
  rm -rf "$CACHE/uv"
  "$PYTHON" -m venv "$CACHE/uv" >/dev/null 2>&1 && return 0
  rm -rf "$CACHE/uv"
  if "$PYTHON" -m pip --version >/dev/null 2>&1; then # pip, but no ensurepip: pip fills an environment from outside
    "$PYTHON" -m venv --without-pip "$CACHE/uv" >/dev/null 2>&1 && return 0
  fi
  local version
  version=$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  { apt_install "python$version-venv" || apt_install python3-venv; } &&
    "$PYTHON" -m venv "$CACHE/uv" >/dev/null 2>&1 && return 0
  die "needs Python's venv and pip: install the package python$version-venv"
}

get_uv() {
  if [ -x "$CACHE/uv/bin/uv" ] && "$CACHE/uv/bin/uv" --version >/dev/null 2>&1; then
    UV=$CACHE/uv/bin/uv
    return
  fi
  say "fetching uv"
  make_uv_home
  local pip=("$CACHE/uv/bin/python" -m pip)
  "${pip[@]}" --version >/dev/null 2>&1 || pip=("$PYTHON" -m pip --python "$CACHE/uv/bin/python")
  "${pip[@]}" install --quiet 'uv>=0.8' || die "pip could not fetch uv (see above)"
  UV=$CACHE/uv/bin/uv
}

trust_same_certificates() { # uv brings certificates of its own: where pip or the machine has others, those count
  if [ -n "${SSL_CERT_FILE:-}${SSL_CERT_DIR:-}${UV_SYSTEM_CERTS:-}${UV_NATIVE_TLS:-}" ]; then return; fi
  local bundle=${PIP_CERT:-${REQUESTS_CA_BUNDLE:-${CURL_CA_BUNDLE:-}}}
  if [ -n "$bundle" ] && [ -f "$bundle" ]; then
    export SSL_CERT_FILE=$bundle
  elif [ -e /etc/ssl/certs/ca-certificates.crt ]; then
    export UV_SYSTEM_CERTS=1 UV_NATIVE_TLS=1 # the new name and the old one
  fi
}

tree_stamp() { # what the wheel is made of; tests and documents don't count
  local parts=() part
  for part in pyproject.toml setup.py README.md LICENSE pyspark_cohort.py sparkcohort assignors cli dashboards jvm runtime streaming native; do
    if [ -e "$part" ]; then parts+=("$part"); fi
  done
  find "${parts[@]}" -type f ! -path '*/__pycache__/*' ! -name '*.so' -print0 | sort -z | xargs -0 cksum | cksum
}

check_cc() { # a CC that is no compiler would look like none at all, which is answered by installing one
  if [ -z "${CC:-}" ]; then return; fi
  printf 'int x;\n' | $CC -x c -fsyntax-only - >/dev/null 2>&1 ||
    die "CC=$CC: cannot be run; unset it or name a compiler"
}

has_headers() { # a C compiler, and the headers of the Python that is used here
  printf '#include <Python.h>\n' | ${CC:-cc} -x c -fsyntax-only \
    -I"$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_path("include"))')" - 2>/dev/null
}

need_cc() {
  if has_headers; then return; fi
  local version
  version=$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  apt_install gcc libc6-dev "python$version-dev" || apt_install gcc libc6-dev python3-dev || true
  has_headers || die "needs a C compiler and the headers of $PYTHON: install gcc and python3-dev"
}

yyjson() { # pinned by native/yyjson.txt, whose hash pip checks
  local pin folder pip=("$CACHE/uv/bin/python" -m pip)
  pin=$(cut -d' ' -f1 native/yyjson.txt)
  folder=$CACHE/sources/${pin/==/-}
  if [ -f "$folder/yyjson.c" ] && [ -f "$folder/yyjson.h" ] && [ -f "$folder/LICENSE" ]; then return; fi
  check_python
  get_uv
  say "fetching $pin"
  "${pip[@]}" --version >/dev/null 2>&1 || pip=("$PYTHON" -m pip --python "$CACHE/uv/bin/python")
  rm -rf "$CACHE/sources.part"
  mkdir -p "$folder" "$CACHE/sources.part"
  "${pip[@]}" download --quiet --no-deps --no-binary :all: --require-hashes --dest "$CACHE/sources.part" \
    --requirement native/yyjson.txt || die "pip could not fetch $pin (see above)"
  tar -xzf "$CACHE/sources.part"/*.tar.gz -C "$CACHE/sources.part" --strip-components 1
  mv "$CACHE/sources.part"/{LICENSE,yyjson/yyjson.c,yyjson/yyjson.h} "$folder"
  rm -rf "$CACHE/sources.part"
}

jar() { # the reader in the JVM, which the wheel brings
  local stamp compiler=$CACHE/jars-compiler/compiler
  stamp=$(find jvm tools/jar.py pyproject.toml tools/pom/compiler -type f -print0 | sort -z | xargs -0 cksum | cksum)
  if [ -f sparkcohort/jars/cohort.jar ] && [ "$(cat "$CACHE/jar.stamp" 2>/dev/null)" = "$stamp" ]; then return; fi
  need_java
  if ! compgen -G "$compiler/ecj-*.jar" >/dev/null; then
    need_maven
    say "fetching the compiler of the jar"
    # shellcheck disable=SC2086  # MAVEN_ARGS are several words
    mvn -q -B -Dstyle.color=never ${MAVEN_ARGS:-} -f tools/pom/compiler/pom.xml -Djars.dir="$CACHE/jars-compiler" generate-resources
  fi
  .venv/bin/python -P tools/jar.py "$compiler"/ecj-*.jar
  printf '%s' "$stamp" >"$CACHE/jar.stamp"
}

install_wheel() {
  local stamp old=$PWD/.venv/.cohort-wheel
  stamp=$(tree_stamp)
  if [ -f "$old" ] && [ "$(cat "$old")" = "$stamp" ]; then return; fi
  need_cc
  rm -rf "$CACHE/wheel" build native/*.so
  "$UV" build --quiet --wheel --out-dir "$CACHE/wheel"
  rm -rf build ./*.egg-info
  "$UV" pip install --quiet --python .venv/bin/python --no-deps --reinstall "$CACHE"/wheel/*.whl
  cp .venv/lib/python*/site-packages/sparkcohort/native/*.so native/ # so that a checkout runs as it is
  printf '%s' "$stamp" >"$old"
}

see_tree() { # see_tree VENV: tests and tools can be imported in it, behind the installed wheel
  local packages
  for packages in "$1"/lib/python*/site-packages; do printf '%s\n' "$PWD" >"$packages/cohort_tree.pth"; done
}

venv() {
  check_cc
  check_python
  get_uv
  trust_same_certificates
  yyjson
  local lock
  lock=$(cat uv.lock pyproject.toml | cksum)
  if [ ! -f .venv/.cohort-lock ] || [ "$(cat .venv/.cohort-lock)" != "$lock" ]; then
    say "making .venv"
    "$UV" sync --quiet --frozen --all-extras --no-install-project --inexact --python "$PYTHON"
    printf '%s' "$lock" >.venv/.cohort-lock
  fi
  see_tree .venv
  jar
  install_wheel
}

newest() { # the lock holds Spark at the version that the peer's jars exist for; users have newer ones
  venv
  if [ ! -x .venv-newest/bin/python ]; then
    "$UV" venv --quiet --python "$PYTHON" .venv-newest
    "$UV" export --quiet --frozen --all-extras --no-emit-project --no-hashes | grep -v '^pyspark==' >"$CACHE/newest.txt"
    "$UV" pip install --quiet --python .venv-newest/bin/python --no-config -r "$CACHE/newest.txt" 'pyspark>=4.2,<5'
  fi
  see_tree .venv-newest
  "$UV" pip install --quiet --python .venv-newest/bin/python --no-deps --reinstall "$CACHE"/wheel/*.whl
}

oldest() { # what is declared, at its lower bounds; what tests need besides, as it is locked
  venv
  if [ ! -f .venv-oldest/.cohort-lock ] || [ "$(cat .venv-oldest/.cohort-lock)" != "$(cat uv.lock pyproject.toml | cksum)" ]; then
    say "making .venv-oldest"
    rm -rf .venv-oldest
    "$UV" venv --quiet --python "$PYTHON" .venv-oldest
    {
      .venv/bin/python -c 'import tomllib
project = tomllib.load(open("pyproject.toml", "rb"))["project"]
extras = project["optional-dependencies"]
print(*project["dependencies"], *(each for name, extra in extras.items() for each in extra), sep="\n")'
      "$UV" export --quiet --frozen --only-group dev --no-hashes | grep -E '^(pytest|pytest-timeout|hypothesis|psutil)=='
    } >"$CACHE/oldest.txt"
    UV_COMPILE_BYTECODE=0 "$UV" pip install --quiet --python .venv-oldest/bin/python --resolution lowest-direct -r "$CACHE/oldest.txt"
    cat uv.lock pyproject.toml | cksum >.venv-oldest/.cohort-lock
  fi
  see_tree .venv-oldest
  "$UV" pip install --quiet --python .venv-oldest/bin/python --no-deps --reinstall "$CACHE"/wheel/*.whl
}

wheels() {
  check_cc
  check_python
  get_uv
  trust_same_certificates
  yyjson
  local lock
  lock=$(cat uv.lock pyproject.toml | cksum)
  if [ -f .venv-wheels/.cohort-lock ] && [ "$(cat .venv-wheels/.cohort-lock)" = "$lock" ]; then return; fi
  need_cc # its headers
  say "making .venv-wheels"
  UV_PROJECT_ENVIRONMENT=$PWD/.venv-wheels UV_COMPILE_BYTECODE=0 \
    "$UV" sync --quiet --frozen --only-group wheels --no-install-project --python "$PYTHON"
  printf '%s' "$lock" >.venv-wheels/.cohort-lock
}

# --- Java and Maven --------------------------------------------------------------------------------

java_version() { # the major version of the java that would be used, or nothing
  local java=java
  if [ -n "${JAVA_HOME:-}" ] && [ -x "$JAVA_HOME/bin/java" ]; then java=$JAVA_HOME/bin/java; fi
  have "$java" && "$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -1
}

need_java() {
  local version
  version=$(java_version || true)
  if [ "${version:-0}" -ge 17 ]; then return; fi
  apt_install openjdk-17-jre-headless || apt_install default-jre-headless || true
  version=$(java_version || true)
  [ "${version:-0}" -ge 17 ] || die "needs Java 17 or newer: install openjdk-17-jre-headless, or set JAVA_HOME"
}

has_compiler() { # a Java 17 or newer that can run a source file
  local java=java
  if [ -n "${JAVA_HOME:-}" ] && [ -x "$JAVA_HOME/bin/java" ]; then java=$JAVA_HOME/bin/java; fi
  have "$java" && "$java" --list-modules 2>/dev/null | grep '^jdk.compiler@' >/dev/null
}

need_jdk() {
  local version
  version=$(java_version || true)
  if [ "${version:-0}" -ge 17 ] && has_compiler; then return; fi
  apt_install openjdk-17-jdk-headless || apt_install default-jdk-headless || true
  need_java
  has_compiler || die "needs a Java 17 with its compiler: install openjdk-17-jdk-headless, or set JAVA_HOME to a JDK"
}

need_maven() {
  if have mvn; then return; fi
  apt_install maven || die "needs Maven (for the tests only): install maven"
}

jars() {
  need_java
  local stamp
  stamp=$(cat tools/pom/pom.xml tools/pom/*/pom.xml | cksum)
  if [ -f "$CACHE/jars/.stamp" ] && [ "$(cat "$CACHE/jars/.stamp")" = "$stamp" ]; then return; fi
  need_maven
  say "fetching jars"
  rm -rf "$CACHE/jars"
  mkdir -p "$CACHE/jars"
  # shellcheck disable=SC2086  # MAVEN_ARGS are several words
  mvn -q -B -Dstyle.color=never ${MAVEN_ARGS:-} -f tools/pom/pom.xml -Djars.dir="$CACHE/jars" generate-resources
  printf '%s' "$stamp" >"$CACHE/jars/.stamp"
}

hosts() {
  if have ip && have iptables; then return; fi
  apt_install iproute2 iptables || die "needs ip and iptables (for the tests only): install iproute2 and iptables"
}

prometheus() { # unpacked, not installed: Debian's package starts a server
  if { have prometheus && have promtool; } || [ -x "$CACHE/prometheus/usr/bin/promtool" ]; then return; fi
  local ask="needs Prometheus and promtool (for the tests only): install prometheus"
  { have apt-get && have dpkg-deb; } || die "$ask"
  say "fetching prometheus"
  rm -rf "$CACHE/prometheus" "$CACHE/prometheus.part"
  mkdir -p "$CACHE/prometheus.part"
  (
    cd "$CACHE/prometheus.part"
    apt-get download -q prometheus || { may_install && as_root apt-get update -q && apt-get download -q prometheus; }
  ) >"$CACHE/apt.log" 2>&1 || { tail -5 "$CACHE/apt.log" >&2; die "$ask"; }
  dpkg-deb -x "$CACHE"/prometheus.part/prometheus_*.deb "$CACHE/prometheus.part"
  rm "$CACHE"/prometheus.part/*.deb
  mv "$CACHE/prometheus.part" "$CACHE/prometheus"
}

chromium() {
  if have chromium; then return; fi
  apt_install chromium fonts-dejavu-core || die "needs Chromium (for the tests only): install chromium"
}

debs_of() { # debs_of ARCHITECTURE FOLDER PACKAGE... : unpacked there; the machine's own lists and packages stay as they are
  local apt=$CACHE/foreign.part/apt-$1 folder=$2
  local options=(-q -o "APT::Architecture=$1" -o "APT::Architectures::=$1" -o APT::Sandbox::User=root
    -o "Dir::State::Lists=$apt/lists" -o "Dir::Cache=$apt/cache" -o Dir::State::status=/dev/null)
  mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/debs" "$folder"
  if [ ! -f "$apt/updated" ]; then apt-get "${options[@]}" update && touch "$apt/updated"; fi
  rm -f "$apt"/debs/*.deb
  (cd "$apt/debs" && apt-get "${options[@]}" download "${@:3}")
  local deb
  for deb in "$apt"/debs/*.deb; do dpkg-deb -x "$deb" "$folder"; done
}

foreign() { # of Debian 12, whose Python is 3.11; what can't be had is not used
  if [ -x "$CACHE/foreign/qemu-aarch64" ]; then return; fi
  if ! { have apt-get && have dpkg-deb; } || [ "$(uname -m)" != x86_64 ]; then
    say "no Debian on x86-64 here: wheels for other systems are looked at, but not loaded"
    return
  fi
  say "fetching an emulator, a Python for ARM, and musl"
  rm -rf "$CACHE/foreign" "$CACHE/foreign.part"
  local all=$CACHE/foreign.part
  mkdir -p "$all"
  {
    debs_of amd64 "$all/tools" qemu-user-static &&
      debs_of amd64 "$all/musl-x86_64" musl && debs_of arm64 "$all/musl-aarch64" musl &&
      debs_of arm64 "$all/aarch64" libpython3.11-minimal libpython3.11-stdlib python3.11-minimal libc6 libgcc-s1 \
        libstdc++6 zlib1g libexpat1 libssl3 libffi8 libbz2-1.0 liblzma5 libsqlite3-0 libuuid1 &&
      mv "$all/tools/usr/bin/qemu-aarch64-static" "$all/qemu-aarch64" &&
      rm -rf "$all"/tools "$all"/apt-* && mv "$all" "$CACHE/foreign"
  } >"$CACHE/apt.log" 2>&1 || { tail -5 "$CACHE/apt.log" >&2; say "wheels for other systems are looked at, but not loaded"; }
}

if [ "${1:-}" = uv ]; then
  get_uv
  trust_same_certificates
  exec "$UV" "${@:2}"
fi
if [ $# = 0 ]; then die "say what: venv, jar, newest, oldest, wheels, yyjson, foreign, java, jdk, jars, hosts, prometheus, chromium, uv"; fi
for part in "$@"; do
  case $part in
    venv) venv ;;
    yyjson) yyjson ;;
    jar) jar ;;
    java) need_java ;;
    jdk) need_jdk ;;
    jars) jars ;;
    newest) newest ;;
    oldest) oldest ;;
    hosts) hosts ;;
    wheels) wheels ;;
    foreign) foreign ;;
    prometheus) prometheus ;;
    chromium) chromium ;;
    *) die "no such part: $part (venv, jar, newest, oldest, wheels, yyjson, foreign, java, jdk, jars, hosts, prometheus, chromium)" ;;
  esac
done
