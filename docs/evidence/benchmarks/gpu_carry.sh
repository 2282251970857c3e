#!/usr/bin/env bash
# Fills .whl/ in the repository with what a machine without network lacks: lightly, and this library's entry points.
#
#   bash docs/evidence/benchmarks/gpu_carry.sh              the two wheels
#   bash docs/evidence/benchmarks/gpu_carry.sh IMAGES.zip   and CIFAR-10 (cifar10/{train,test}/CLASS/*.jpg), as .whl/cifar10.tar.xz
#
# Run it in a checkout, after the last change of pyproject.toml. Nothing of it is committed.
set -euo pipefail
cd "$(git rev-parse --show-toplevel)"
exclude=$(git rev-parse --git-path info/exclude)
mkdir -p "$(dirname "$exclude")"
grep -qx '/.whl/' "$exclude" 2>/dev/null || echo '/.whl/' >>"$exclude"
mkdir -p .whl
rm -f .whl/*.whl

# The machine has torch, torchvision, Lightning, timm, scikit-learn, tensorboard, pluggy, peft and the rest.
# lightly asks for hydra-core, which is imported by lightly's command line alone: it is left behind.
python3 -m pip download -q --no-deps --only-binary=:all: -d .whl \
    --python-version 3.12 --implementation cp --platform manylinux_2_28_x86_64 'lightly>=1.6,<1.7'

# The wheel declares the components (entry points). The code itself is imported from the checkout, whose
# folders come first in PYTHONPATH, so a change of it needs no new wheel. It is built from a copy: no build/ here.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -co --exclude-standard -z -- pyproject.toml README.md LICENSE MANIFEST.in ccl_plugins registry |
    tar c --null -T - | tar x -C "$copy"
python3 -m pip wheel -q --no-deps -w .whl "$copy"

if [ $# -gt 0 ]; then # 60,000 files that share 600 bytes each: 53 MiB become 16
    python3 - "$1" .whl/cifar10.tar.xz <<'PYTHON'
import sys, tarfile, zipfile
with zipfile.ZipFile(sys.argv[1]) as images, tarfile.open(sys.argv[2], "w:xz", preset=1) as packed:
    for name in sorted(n for n in images.namelist() if n.endswith(".jpg")):
        entry = tarfile.TarInfo(name)
        entry.size = images.getinfo(name).file_size
        packed.addfile(entry, images.open(name))
PYTHON
fi

names=$(python3 -c "import zipfile,glob;print(*(n for f in glob.glob('.whl/ccl_plugins-*.whl') for n in zipfile.ZipFile(f).namelist() if n.endswith('entry_points.txt')))")
[ -n "$names" ] || { echo "the wheel declares no components" >&2; exit 1; }
ls -l .whl
