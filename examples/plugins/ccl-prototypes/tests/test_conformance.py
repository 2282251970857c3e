"""Every component of this package keeps the laws of its kind, in other forms too."""

from ccl_plugins.testing import parametrize_with_checks

NOT_OF_A_BANK = {
    "is_called_on_embeddings": "a bank needs dataset indices",
    "half_precision_is_computed_in_float32": "it calls on embeddings, without dataset indices",
    "order_of_samples_does_not_matter": "it gives samples other indices, and so other entries",
}


@parametrize_with_checks(
    "ccl-prototypes",
    variants={
        "objective/proto_nce": {"released": {"k": 8, "form": "released", "negatives": 8}},
        "objective/idfd": {"bank": {"bank": True}},
    },
    expected_failures={("objective/idfd, bank", law): why for law, why in NOT_OF_A_BANK.items()},
)
def test_conformance(check):
    check()
