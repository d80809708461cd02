"""A policy as an ONNX graph: two dozen nodes, built with the onnx package's own helper."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from jaxrl_hw.policies.portable import PortablePolicy

OPSET, IR_VERSION = 17, 8
"""Of 2022: read by every onnxruntime from 1.13 on, so by those on a robot's computer."""
_FLOAT = 1  # onnx.TensorProto.FLOAT
ACTIVATIONS = {"elu": ("Elu",), "relu": ("Relu",), "silu": ("Sigmoid", "Mul"), "tanh": ("Tanh",)}


def to_onnx(policy: PortablePolicy) -> bytes:
    """The file's content: input `obs` [batch, O], output `action` [batch, A], both float32.

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
    graph = helper.make_graph(
        _nodes(policy, helper.make_node),
        "policy",
        [helper.make_tensor_value_info("obs", TensorProto.FLOAT, ["batch", policy.obs_size])],
        [helper.make_tensor_value_info("action", TensorProto.FLOAT, ["batch", policy.action_size])],
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


def _nodes(policy: PortablePolicy, node: Any) -> list[Any]:
    """obs -> masked -> normalized -> layers -> action."""
    nodes = [
        node("MatMul", ["obs", "motion"], ["motions"]),
        node("Abs", ["motions"], ["sizes"]),
        node("ReduceMax", ["sizes"], ["largest"], axes=[-1], keepdims=1),
        node("Less", ["largest", "one"], ["is_standing"]),
        node("Cast", ["is_standing"], ["standing"], to=_FLOAT),
        node("Mul", ["standing", "clock"], ["hidden"]),
        node("Sub", ["one", "hidden"], ["visible"]),
        node("Mul", ["obs", "visible"], ["masked"]),
        node("Sub", ["masked", "mean"], ["centred"]),
        node("Div", ["centred", "scale"], ["scaled"]),
        node("Clip", ["scaled", "low", "high"], ["x0"]),
    ]
    last = len(policy.kernels) - 1
    for i in range(last + 1):
        out = "action" if i == last else f"sum{i}"
        nodes.append(node("Gemm", [f"x{i}", f"kernel{i}", f"bias{i}"], [out]))
        if i < last:
            first, *second = ACTIVATIONS[policy.activation]
            after = f"x{i + 1}"
            nodes.append(node(first, [out], [f"gate{i}" if second else after]))
            nodes += [node(name, [out, f"gate{i}"], [after]) for name in second]
    return nodes
