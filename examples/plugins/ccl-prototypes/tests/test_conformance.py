"""Every component of this package keeps the laws of its kind, in other forms too."""

from ccl_plugins.testing import parametrize_with_checks


@parametrize_with_checks(
    "ccl-prototypes",
    variants={
        "objective/proto_nce": {"released": {"k": 8, "form": "released", "negatives": 8}},
        "objective/idfd": {"bank": {"bank": True}},
    },
)
def test_conformance(check):
    check()
