#!/bin/bash -eu
# Builds a fuzz target and a seed corpus for each format, as OSS-Fuzz runs it.
pip3 install --require-virtualenv=false '.[crypto]' 2>/dev/null || pip3 install '.[crypto]'
for name in $(python3 -c 'from tests.fuzzing import readers; print(*readers.FORMATS)'); do
    target="fuzz_${name//-/_}"
    printf 'import sys\n\nfrom tests.fuzzing import coverage_guided\n\ncoverage_guided.main("%s", sys.argv)\n' "$name" > "$target.py"
    compile_python_fuzzer "$target.py" --collect-submodules formats --paths .
    (cd "tests/fuzzing/corpus/$name" && zip -q -r "$OUT/${target}_seed_corpus.zip" .)
done
