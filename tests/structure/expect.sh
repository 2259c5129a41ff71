# What tests of checks share: sourced by them. `failures` counts.
failures=0

# expect STATUS TEXT COMMAND...: the command must exit with STATUS and print TEXT.
expect() {
  local status=$1 text=$2 output actual=0
  shift 2
  output=$("$@" 2>&1) || actual=$?
  [[ $actual -eq 0 ]] || actual=1
  if [[ $actual -ne $status || $output != *"$text"* ]]; then
    echo "expected status $status and '$text', got status $actual and '$output' from: $*"
    failures=$((failures + 1))
  fi
}
