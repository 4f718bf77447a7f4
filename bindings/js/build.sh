#!/usr/bin/env bash
# Builds bindings/js/dist/guiderail.wasm. Needs emscripten (3.1.6 or newer: Debian's package does) and cmake.
set -euo pipefail
cd "$(dirname "$0")/../.."
command -v em++ >/dev/null || { echo "emscripten was not found. Debian, Ubuntu: sudo apt-get install emscripten" >&2; exit 1; }
build=${BUILD:-build/js}
generator=$(command -v ninja >/dev/null && echo -GNinja || true)
emcmake cmake -S bindings/js -B "$build" ${generator:+"$generator"} --log-level=WARNING >/dev/null
cmake --build "$build" --parallel "${JOBS:-2}"
mkdir -p bindings/js/dist
cp "$build/guiderail.wasm" bindings/js/dist/.guiderail.tmp && mv bindings/js/dist/.guiderail.tmp bindings/js/dist/guiderail.wasm
cp LICENSE bindings/js/
printf 'guiderail.wasm: %s bytes, %s compressed\n' "$(wc -c <bindings/js/dist/guiderail.wasm)" "$(gzip -9c bindings/js/dist/guiderail.wasm | wc -c)"
