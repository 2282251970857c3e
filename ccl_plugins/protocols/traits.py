"""Traits: what a component may declare beside its protocol, each with its default.

``TRAITS`` is the whole list, and docs/reference/kinds.md is written from it.  A component declares a trait
as an attribute, a property or a method of that name; None counts as not declared.  Of what is declared in
the class, or set in the constructor, the form is checked when a pipeline builds the component.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any, get_args

from ccl_plugins.protocols.condition import Missing


def _nothing(*given: Any) -> None:
    """What a trait that is called does by default."""


@dataclass(frozen=True)
class Trait:
    """One member that a component may have.

    Args:
        kind: The kind of the component.
        usage: Its name; of a method, with its parameters.
        default: What a component without it has; one default for each name, whatever the kind.
        doc: When it is read or called, and what it must give.
        values: What it may be: a type, or the values themselves; by default the default's type.  A
            method must be callable.
    """

    kind: str
    usage: str
    default: Any
    doc: str
    values: type | tuple[Any, ...] | None = None

    @property
    def name(self) -> str:
        """The member's name."""
        return self.usage.partition("(")[0]

    def refuse(self, component: object) -> str | None:
        """What is wrong with the member of a component; None if its form is right, or not known yet."""
        # Found without running a property, which might open a file.
        value = inspect.getattr_static(component, self.name, None)
        a_method = isinstance(value, FunctionType | staticmethod | classmethod)
        if value is None or (hasattr(type(value), "__get__") and not a_method):
            return None
        if self.usage != self.name:
            return None if a_method or callable(value) else f"must be a method {self.usage}"
        several = self.kind == "condition" and isinstance(value, Mapping)
        wanted = self.values or type(self.default)
        wanted = (True, False) if wanted is bool else wanted
        for each in value.values() if several else [value]:
            if wanted is float:
                fits = isinstance(each, float | int) and not isinstance(each, bool)
            elif isinstance(wanted, type):
                fits = isinstance(each, wanted) and (wanted is str or not isinstance(each, str))
            else:
                fits = any(type(each) is type(one) and each == one for one in wanted)
            if not fits:
                return f"must be {_named(wanted)}, not {each!r:.80}"
        return None


def _named(wanted: type | tuple[Any, ...]) -> str:
    """What a trait may be, in words."""
    if isinstance(wanted, type):
        return {str: "a string", Mapping: "a mapping", float: "a number"}.get(
            wanted, "a list or a tuple"
        )
    *most, last = map(repr, wanted)
    return f"{', '.join(most)} or {last}"


_DECLARED: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "objective": {
        "setup(tables, sizes)": (
            _nothing,
            "Called once in every run, a resumed one too, after the conditions are fitted and before the"
            " optimizer is created. `tables` has the `Table` of each fitted condition by name, less the"
            " samples left out of training; `sizes` is a `Sizes`. Creates parameters and state of these"
            " sizes.",
        ),
        "progress(step, total)": (
            _nothing,
            "Called before the loss of each batch, with the number of optimizer steps taken and the number"
            " in the run. Updates scheduled numbers.",
        ),
        "after_step()": (
            _nothing,
            "Called after each optimizer step. Commits state that the step changes.",
        ),
        "scalars()": (
            dict,
            "Called when metrics are logged. Returns the current value of each scheduled or learned number"
            " by name, 0-d and without gradient, logged as `objective/<name>`.",
        ),
        "statistics()": (
            dict,
            "Called once, after `setup`. Returns the Gram matrices that a queue should maintain, as"
            " `Statistic`, by the name under which they appear in `pairs.queue.grams`.",
        ),
        "hierarchies": (
            False,
            "Read when a pipeline is composed. True if the objective reads several class ids per sample.",
        ),
        "reads_queue": (
            True,
            "Read when a pipeline is composed. False if the objective compares the samples of a batch"
            " alone, as a loss of another library does; a method with a queue is then a warning.",
        ),
        "reads_features": (
            False,
            "Read in a call on raw embeddings, which then needs `features=(f0, f1)`, a `(b, f)` tensor for"
            " each view. True if the objective cannot do without `pairs.features`, `(u, n, f)`.",
        ),
        "reads_patches": (
            False,
            "Read when a pipeline is composed, and in a call on raw embeddings, which then needs"
            " `patches=Patches(...)`. True if the objective reads `pairs.samples.patches`, the scores of"
            " masked patches; a method without `masked_views` is then refused.",
        ),
        "check_read(name, condition)": (
            _nothing,
            "Called when a pipeline is composed, with each condition that the objective reads, before the"
            " general check. Raises a ValueError for one that it cannot take, in words of its own.",
        ),
        "compiles": (
            True,
            "Read before the first step of a run with `compile`. False if the loss cannot be compiled, for"
            " example because it takes gradients; the networks are then compiled alone.",
        ),
        "in_parts": (
            False,
            "Read before a run with `anchors_at_once`, and by the conformance kit. True if the term of an"
            " anchor depends on other samples through the keys alone, and `terms` keeps nothing and"
            " draws nothing at random: the loss may then be computed for some anchors at a time.",
        ),
        "stops_gradient": (
            False,
            "Read by the conformance kit, and by `ContrastiveObjective.loss`, which then refuses second"
            " derivatives. True if the gradient deliberately differs from the derivative of the value.",
        ),
        "adversarial": (
            False,
            "Read while training. True if the encoder raises a part of the loss, which may then rise in a"
            " healthy run.",
        ),
        "hides": (
            False,
            "Read when `guided` is built. True if minimizing the loss makes the embeddings forget the"
            " condition, as that of a fair objective; as a guide it is then for `keep = false` alone.",
        ),
        "measures_dependence": (
            False,
            "Read when `guided` is built. True if the loss is lower, the less any vectors tell of the"
            " condition: a guide then maximizes it to keep, and reads features unless `at` says otherwise.",
        ),
        "reads_projections": (
            None,
            "Read before training. Whether the loss depends on the projections, so that heads learn."
            " Without the member they do, unless it has `reads_features`.",
            bool,
        ),
    },
    "kernel": {
        "features(a)": (
            None,
            "Called with condition values `(n, c)`. Returns vectors `(n, r)` whose inner products are the"
            " kernel's values. If r is smaller than the number of samples, CCL-K solves for r unknowns"
            " instead of one per sample.",
        ),
        "rank(a)": (
            None,
            "Called with condition values before `features`. Returns r without computing features.",
        ),
        "radial(square)": (
            None,
            "Called with squared Euclidean distances of any shape. Returns the kernel's values for them,"
            " which must not increase with the distance. `conditional_pair` uses it to draw partners for"
            " conditions of up to three numbers.",
        ),
        "distances(a, b)": (
            None,
            "Called with condition values. Returns `(n, m)` what its `scale` divides. Where the kernel sees"
            " nothing, or all as equal, the line names quantiles of them as candidates for the scale.",
        ),
        "one_hot": (
            False,
            "True if the kernel treats class ids as one-hot vectors: one value for equal ids, another for"
            " different ids. On class ids, CCL-K then needs no solve, and `conditional_pair` draws by"
            " class.",
        ),
        "separates": (
            False,
            "Read of a kernel with `conditions`, where all are class ids. True if two samples have the same"
            " similarity where all ids are equal, and 0 elsewhere. CCL-K then needs no solve.",
        ),
        "conditions": (
            {},
            "Read when an objective is built. The names of several conditions, with the value types that"
            ' the kernel accepts for each: `{"age": ("continuous",), "pose": ("continuous",)}`. The kernel'
            " is then called with mappings of these names to values, `features` too, and the objective"
            " reads these conditions in place of the one that its `on` names. `product` and `sum` with"
            " `on` are such kernels.",
            Mapping,
        ),
    },
    "condition": {
        "column": (
            None,
            "Read when measurements are shown. The metadata column whose values the condition gives, so"
            " that a measurement of this column counts as one of the condition.",
            str,
        ),
        "reads_embeddings": (
            False,
            "Read before `fit` is called. True if `fit` calls `embed()`; all processes then compute the"
            ' embeddings together. `"key"` if `embed()` is to return the momentum encoder\'s keys: the'
            ' method must then have `project_key`. `"features"` if it is to return those of the backbone.',
            (True, False, "key", "features"),
        ),
        "missing": (
            "error",
            "Read when the table is fitted. What happens to samples without a value (NaN, or -1 for class"
            ' ids and 0/1 columns): `"error"` refuses them; `"own"` gives each a class of its own;'
            ' `"ignore"` leaves them out of the objectives that read the condition, as anchors and as'
            ' keys, and keeps them in all others; `"drop"` leaves them out of training.',
            get_args(Missing),
        ),
        "hierarchy": (
            False,
            "Read when a pipeline is composed. True if each sample has several class ids, `(N, L)`, as"
            " with `wordnet(levels=[...])` and `clusters(k=[...])`. Only objectives with `hierarchies ="
            " True` accept it. Without the member, the mismatch is found when the loss first reads the"
            " table.",
        ),
        "within_batch": (
            False,
            "Read before a run begins. True if values of different batches cannot be compared, for example"
            " component numbers of a graph on the batch. A method with a queue is then refused.",
        ),
    },
    "sampler": {
        "value_types(parameters)": (
            (),
            "A static method, called when a pipeline is composed, with all parameters of the sampler."
            " Returns the value types that its condition may have; without it, any.",
        ),
    },
    "transform": {
        "transforms": (
            None,
            "Read when a sample is loaded. One function from an image to a tensor for each view; training"
            " then seeds each view separately.",
            Sequence,
        ),
        "batch_transforms": (
            None,
            "Read when a run begins. One function for each view, called on the device with the images of a"
            " batch as the data set has them, `(n, channels, height, width)`, those of PIL as uint8, and"
            " with seeds `(n,)`, long. It returns `n` tensors, stacked; row i may depend on image i and"
            " seed i alone. Training then draws views by these and not image by image.",
            Sequence,
        ),
        "source": (
            None,
            "Read when a pipeline is composed and when a sample is loaded. The column that the views are"
            " made of instead of the image. Such a transform is one [modality](glossary.md#modality) among"
            " several.",
            str,
        ),
        "value_types": (
            (),
            "Read with `source`. The value types that its column may have; without them it is one of the"
            " split's `texts`.",
            Sequence,
        ),
        "check_values(values)": (
            _nothing,
            "Called before training with the whole column of a `source`: N strings, or `(N,)` or `(N, c)`"
            " numbers. Raises ValueError for a value that the transform cannot take, and warns if it loses"
            " something.",
        ),
        "fingerprint()": (
            _nothing,
            "Called before training. A string that differs if a file that the transform reads, such as a"
            " tokenizer, has other contents; a run is not resumed with another one.",
        ),
        "sizes": (
            (),
            "Read when a pipeline is composed. The height and width in pixels of each view, where they"
            " differ from view to view; the first is the transform's `size`.",
            Sequence,
        ),
        "modalities": (
            (),
            "Read when a pipeline is composed and when a sample is loaded. For each view the name of its"
            " modality. The transform then has `of`, the transform of each modality by name, beginning"
            ' with `"image"`; it and its `transforms` take a mapping: the image, text or values by'
            " modality.",
            Sequence,
        ),
    },
    "method": {
        "embed_modality(name, x)": (
            None,
            "Called for evaluators that compare images with texts. Returns the projections `(n, d)` of"
            " samples of a modality, not normalized. The method then has `towers`, the networks of the"
            ' modalities beside the image by name; `heads`, the head of each modality and of `"image"`;'
            " and `modalities`, the modality of each view that `embed` takes. The pipeline supplies the"
            " keyword-only parameter `modalities`.",
        ),
        "conditions": (
            {},
            "Read when a pipeline is composed. The names of the conditions that the method itself reads,"
            " with the value types it accepts for each: a class attribute, or a property where they depend"
            " on parameters.",
            Mapping,
        ),
        "check_batch(size)": (
            _nothing,
            "Called before a run begins, with the global batch size. Raises ValueError for a size that the"
            " method cannot take.",
        ),
        "project_key(x)": (
            None,
            'Called for a condition that reads keys, as `clusters(of="key")`. Returns the momentum'
            " encoder's keys `(n, d)` of images, without gradient and without other processes; row i is of"
            " image i.",
        ),
        "read_conditions(look_up)": (
            None,
            "Called before the first batch of each epoch, after tables are refreshed, and before the first"
            " batch of a run that is resumed in the middle of an epoch, after `load_state_dict`. `look_up`"
            " is a `LookUp`, from dataset indices `(k,)` to the rows of every fitted condition by name; a"
            " queue reads its condition values again. A method with this member counts as one with a"
            " queue.",
        ),
        "has_queue(parameters)": (
            lambda parameters: True,
            "A static method, called when a pipeline is composed, with all parameters of a method with"
            " `read_conditions`. Returns whether there is a queue, and a momentum encoder for it, with"
            " these parameters.",
        ),
        "momentum": (
            None,
            "Read while training. The momentum of the key encoder, below 1; a run says where it does not"
            " suit its length or its queue.",
            float,
        ),
        "masked_views(parameters)": (
            lambda parameters: 0,
            "A static method, called when a pipeline is composed, with all parameters of the method."
            " Returns of how many views, the first ones, it masks patches. Its backbone must then have"
            " `patch_shape`, and these views are of one size.",
        ),
        "masking(height, width)": (
            None,
            "Called when a sample is loaded, for each view of which patches are masked, with its height and"
            " width in pixels and seeded generators. Returns `(rows, columns)`, True at masked patches. It"
            " is a `Masking`, which can be pickled. The method is then called as `embed(views, masks)`,"
            " with `Masks`, and gives `patches` in its `Embedded`.",
        ),
        "keep_statistics(statistics)": (
            _nothing,
            "Called once, after the objective's `setup`, with the result of its `statistics()`. The queue"
            " maintains these Gram matrices, and pairs carry them in `queue.grams`.",
        ),
    },
    "backbone": {
        "no_weight_decay()": (
            set,
            "Called when the optimizer is created, unless it decays all parameters. Returns names of"
            " parameters without weight decay.",
        ),
        "layer_numbers()": (
            None,
            "Called when the optimizer is created with `layer_decay`. Returns the layer of each parameter"
            " by name, from 0 at the image.",
        ),
        "check_channels(parameters, channels)": (
            _nothing,
            "A static method, called when a pipeline is composed, with all parameters of the backbone and"
            " the number of channels of the views: of the transform's `mean`. Raises ValueError for"
            " another number than the network takes; it builds no network.",
        ),
        "check_image_size(parameters, size)": (
            _nothing,
            "A static method, called when a pipeline is composed, with all parameters of the backbone and"
            " the transform's `size` in pixels. Raises ValueError for images that the network would not"
            " take, and says what to change; it builds no network.",
        ),
        "image_statistics(parameters)": (
            _nothing,
            "A static method, called when a pipeline is composed, with all parameters of the backbone."
            " Returns the mean and the standard deviation of each channel of the images that its weights"
            " were trained on, for pixels in [0, 1]: two sequences of numbers; None without such weights."
            " They are the default of the built-in transforms.",
        ),
        "patch_shape": (
            None,
            "Read by a method that masks patches. Height and width of a patch in pixels, and the width of"
            " its embedding. The backbone is then also called as `backbone(x, mask, token)`, and returns"
            " `(n, num_features)` and the features `(n, rows, columns, width)` of all patches. Embeddings"
            " of patches at which `mask`, `(n, rows, columns)`, is True are replaced by `token`,"
            " `(width,)`, before positions are added; with a mask of None, none.",
            Sequence,
        ),
        "check_masked(parameters)": (
            None,
            "A static method, called when a pipeline with a method that masks patches is composed, with all"
            " parameters of the backbone. Raises ValueError if it has no `patch_shape` with these. A class"
            " without it is refused.",
        ),
        "patches(x)": (
            None,
            "Called for figures, with images. Returns the features of their patches, `(n, rows, columns,"
            " f)`.",
        ),
        "check_tokens(parameters, length, vocabulary)": (
            _nothing,
            "A static method of a network on token ids, called when a pipeline is composed, with its"
            " parameters and the transform's `length` (tokens of a view) and `vocabulary` (ids are below"
            " it). Raises ValueError for token ids that the network would not take.",
        ),
    },
    "dataset": {
        "texts()": (
            None,
            "Called when a pipeline is composed. Returns the names of the columns of texts, the same in"
            " both splits, without reading an image; `()` if there are none. A transform or an evaluator"
            " that reads another column is refused.",
        ),
    },
    "evaluator": {
        "columns": (
            {},
            "Read before training. The names of the metadata columns that the evaluator reads, with the"
            ' value types it accepts for each, such as `{"color": ("continuous",)}`; a data set without'
            " one of them is refused.",
            Mapping,
        ),
        "split": (
            "test",
            'Read where an evaluator is called. `"train"` if it measures the training split: intervals are'
            " then over the groups of its samples, and no class of it is new.",
            ("test", "train"),
        ),
        "reads_towers": (
            False,
            "Read when a pipeline is composed. True if the evaluator reads `Frozen.towers`; a pipeline"
            " whose method has no text tower is then refused.",
        ),
        "reads_projections": (
            None,
            "Read when features are computed. True if the evaluator reads `Frozen.projections`; without"
            " the member it does not.",
            bool,
        ),
        "reads_original": (
            False,
            "Read before training. True if the evaluator reads `Frozen.original`; the run then keeps the"
            " features of its test split before training.",
        ),
        "within": (
            False,
            "Read where an evaluator is called. True if what predicts is fitted to others of the measured"
            " samples, and not to the training split: then values that training lacks are measured too. A"
            " column beside the label is judged by its measurements before others, and monitors take them"
            " of the last samples.",
        ),
    },
    "logger": {
        "files": (
            (),
            "Read when a run begins. The names and patterns of what the logger leaves in the folder of"
            ' a run, as `("log.db",)`; what was not there before is noted by its name, and deleted with the'
            " run.",
            Sequence,
        ),
        "on_disk": (
            False,
            "Read when a run is measured in a later session. True if the logger writes to this machine"
            " alone; it then gets these numbers too. A service, which may ask for a password, is opened by"
            " the session that trains.",
        ),
        "check()": (
            _nothing,
            "Called before anything is written. Raises a ValueError if a package is missing or an option"
            " is wrong.",
        ),
    },
    "figure": {
        "caption": (
            "",
            "Read when a report shows the figure. What stands under it, in place of the first line of its"
            " docstring.",
        ),
        "side_by_side": (
            False,
            "Read before the figure is called. True if each run takes a part of its own; it then gets the"
            " first run of each configuration, and at most six.",
        ),
    },
    "command": {
        "example": (
            "",
            'Read when its help is shown. A call of it, as `"ccl ring --size 3"`.',
        ),
    },
}
"""By kind and usage: the default, the text and the values of each trait, as `Trait` has them."""

TRAITS = tuple(
    Trait(kind, usage, *rest)
    for kind, members in _DECLARED.items()
    for usage, rest in members.items()
)
"""Every trait, by kind."""

DEFAULTS = {each.name: each.default for each in TRAITS}
"""The default of each trait."""


def trait(component: Any, name: str) -> Any:
    """What a component declares, or the trait's default.

    ``trait(objective, "reads_queue")``, ``trait(objective, "after_step")()``.

    Args:
        component: A component; or its class, for what can be known before it is built.
        name: One of the names in ``TRAITS``.
    """
    declared = getattr(component, name, None)
    return DEFAULTS[name] if declared is None else declared


def wrong_traits(kind: str, component: object) -> list[str]:
    """A line for each trait of a built component that has not the form it must have."""
    wrong = ((each.name, each.refuse(component)) for each in TRAITS if each.kind == kind)
    return [f"{name} {reason}" for name, reason in wrong if reason]
