"""A policy as an ONNX graph: two dozen nodes, built with the onnx package's own helper."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import numpy as np

from jaxrl_hw.policies.portable import PortablePolicy

OPSET, IR_VERSION = 17, 8
"""Of 2022: read by every onnxruntime from 1.13 on, so by those on a robot's computer."""
_FLOAT = 1  # onnx.TensorProto.FLOAT
ACTIVATIONS = {"elu": ("Elu",), "relu": ("Relu",), "silu": ("Sigmoid", "Mul"), "tanh": ("Tanh",)}


def to_onnx(policy: PortablePolicy) -> bytes:
    """The file's content: input `obs` [batch, O], output `action` [batch, A], both float32.

    A memory is one more input and one more output of the same shape: `history` [batch, K - 1, O]
    and `history_out`, or `state` [batch, H] and `state_out`. It starts from zeros, and goes from
    each call to the next.

    Phase mask and normalization are inside. The description is in metadata_props: strings as they
    are, everything else as JSON.

    Raises:
      ImportError: the onnx package is not installed.
    """
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    arrays = policy.arrays()
    limit = arrays.pop("clip")
    arrays |= {"low": -limit, "high": limit, "one": np.ones((), np.float32)}
    unused = ("seen", "log_std")
    nodes, numbers = _nodes(policy, helper.make_node)
    arrays |= numbers
    values = partial(helper.make_tensor_value_info, elem_type=TensorProto.FLOAT)
    inputs = [values("obs", shape=["batch", policy.obs_size])]
    outputs = [values("action", shape=["batch", policy.action_size])]
    for name in memory_inputs(policy):
        shape = ["batch", *policy.start(1).shape[1:]]
        inputs.append(values(name, shape=shape))
        outputs.append(values(f"{name}_out", shape=shape))
    graph = helper.make_graph(
        nodes,
        "policy",
        inputs,
        outputs,
        [numpy_helper.from_array(np.asarray(a), n) for n, a in arrays.items() if n not in unused],
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="jaxrl_hw",
        producer_version=str(policy.meta["versions"].get("jaxrl_hw", "")),
    )
    texts = {k: v if isinstance(v, str) else json.dumps(v) for k, v in policy.meta.items()}
    helper.set_model_props(model, texts)
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString())


def memory_inputs(policy: PortablePolicy) -> tuple[str, ...]:
    """Names of the inputs that carry its memory; each has an output NAME_out."""
    return {"none": (), "history": ("history",), "gru": ("state",)}[policy.memory[0]]


def _nodes(policy: PortablePolicy, node: Any) -> tuple[list[Any], dict[str, np.ndarray]]:
    """obs -> masked -> remembered -> normalized -> layers -> action; and the integers they need."""
    kind, size = policy.memory
    seen = "window" if kind == "history" else "masked"
    nodes = [
        node("MatMul", ["obs", "motion"], ["motions"]),
        node("Abs", ["motions"], ["sizes"]),
        node("ReduceMax", ["sizes"], ["largest"], axes=[-1], keepdims=1),
        node("Less", ["largest", "one"], ["is_standing"]),
        node("Cast", ["is_standing"], ["standing"], to=_FLOAT),
        node("Mul", ["standing", "clock"], ["hidden"]),
        node("Sub", ["one", "hidden"], ["visible"]),
        node("Mul", ["obs", "visible"], ["masked"]),
        *(_to_history(node) if kind == "history" else []),
        node("Sub", [seen, "mean"], ["centred"]),
        node("Div", ["centred", "scale"], ["scaled"]),
        node("Clip", ["scaled", "low", "high"], ["x0" if kind == "none" else "clipped"]),
    ]
    integers: dict[str, list[int]] = {}
    if kind == "history":
        nodes.append(node("Reshape", ["clipped", "row"], ["x0"]))
        integers = {"axis": [1], "second": [1], "end": [size], "row": [0, -1]}
    if kind == "gru":
        nodes += _through_gru(node)
        integers = {"gates": [size] * 3}
    last = len(policy.kernels) - 1
    for i in range(last + 1):
        out = f"sum{i}" if i < last or policy.head else "action"
        nodes.append(node("Gemm", [f"x{i}", f"kernel{i}", f"bias{i}"], [out]))
        if i < last:
            first, *second = ACTIVATIONS[policy.activation]
            after = f"x{i + 1}"
            nodes.append(node(first, [out], [f"gate{i}" if second else after]))
            nodes += [node(name, [out, f"gate{i}"], [after]) for name in second]
    nodes += _head(policy, node, f"sum{last}")
    return nodes, {name: np.array(value, np.int64) for name, value in integers.items()}


def _head(policy: PortablePolicy, node: Any, out: str) -> list[Any]:
    """The network's outputs -> action; as `run_policy.head` does."""
    if policy.head_kind == "tanh":
        return [node("Tanh", [out], ["squashed"]), node("Mul", ["squashed", "head"], ["action"])]
    if policy.head_kind == "argmax":
        best = node("ArgMax", [out], ["best"], axis=-1, keepdims=0)
        return [best, node("Gather", ["head", "best"], ["action"], axis=0)]
    return []


def _to_history(node: Any) -> list[Any]:
    """masked, history -> window, history_out."""
    return [
        node("Unsqueeze", ["masked", "axis"], ["newest"]),
        node("Concat", ["history", "newest"], ["window"], axis=1),
        node("Slice", ["window", "second", "end", "axis"], ["history_out"]),
    ]


def _through_gru(node: Any) -> list[Any]:
    """clipped, state -> x0, state_out; as `run_policy.gru` does."""
    return [
        node("Gemm", ["clipped", "gru_in", "gru_bias"], ["gates_in"]),
        node("MatMul", ["state", "gru_state"], ["gates_at"]),
        node("Split", ["gates_in", "gates"], ["reset_in", "update_in", "new_in"], axis=-1),
        node("Split", ["gates_at", "gates"], ["reset_at", "update_at", "new_at"], axis=-1),
        node("Add", ["reset_in", "reset_at"], ["reset_sum"]),
        node("Sigmoid", ["reset_sum"], ["reset"]),
        node("Add", ["update_in", "update_at"], ["update_sum"]),
        node("Sigmoid", ["update_sum"], ["update"]),
        node("Add", ["new_at", "gru_gate"], ["new_biased"]),
        node("Mul", ["reset", "new_biased"], ["new_kept"]),
        node("Add", ["new_in", "new_kept"], ["new_sum"]),
        node("Tanh", ["new_sum"], ["new"]),
        node("Sub", ["one", "update"], ["forgotten"]),
        node("Mul", ["forgotten", "new"], ["state_new"]),
        node("Mul", ["update", "state"], ["state_kept"]),
        node("Add", ["state_new", "state_kept"], ["state_out"]),
        node("Concat", ["state_out", "clipped"], ["x0"], axis=-1),
    ]
