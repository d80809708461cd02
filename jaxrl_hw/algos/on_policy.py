"""What algorithms that learn from each batch once need, and how long a batch suits."""

from __future__ import annotations

import math

from jaxrl_hw.algos.networks.settings import NetConfig, count_weights, policy_size
from jaxrl_hw.types import Needs, Sizes

_FEW_ENVS, _SHORTEST = 256, 4


def square_root_rule(at_256: int, longest: int, num_envs: int) -> int:
    """Control steps per iteration that suit a number of environments: `at_256` of 256, a quarter of
    that of 4,096.

    The batch grows with the square root of the number. More environments then mean both: more
    updates in the same number of env steps than with long unrolls, and a larger batch for each.
    """
    wanted = round(at_256 * math.sqrt(_FEW_ENVS / num_envs))
    return min(max(wanted, _SHORTEST), longest)


def on_policy_needs(
    net: NetConfig,
    sizes: Sizes,
    *,
    unroll: int,
    epochs: int,
    minibatch_size: int,
    mirrors: bool = False,
    symmetric: bool = False,
    more_weights: int = 0,
    averages: bool = False,
    moments: int = 2,
) -> Needs:
    """The needs of a policy and a value network.

    Args:
      net, sizes: of the networks and of what they see.
      unroll, epochs, minibatch_size: as `Needs` has them.
      mirrors: whether the mirror image goes through the policy network too.
      symmetric: whether both networks are so by construction.
      more_weights: beside the two networks.
      averages: whether the optimizer keeps the policy's mean weights.
      moments: of each weight that the optimizer keeps.
    """
    policy = policy_size(net, sizes.obs, sizes.action, mirrors)
    weights = policy.weights + count_weights(sizes.critic, net.value, 1) + more_weights
    averaged = policy.weights if averages else 0
    widths = (1 + mirrors) * policy.activations + sum(net.value)
    return Needs(
        unroll=unroll,
        epochs=epochs,
        minibatch_size=minibatch_size,
        network_bytes=4 * weights,
        optimizer_bytes=4 * (moments * weights + averaged),
        normalizer_bytes=8 * (sizes.obs + sizes.critic),  # mean and variance
        sample_bytes=4 * (2 * (sizes.obs + sizes.critic) + 3 * sizes.action + 8 + policy.sample),
        memory_bytes=4 * policy.memory,
        # activations and their gradients, 4 bytes each, twice
        update_bytes=16 * minibatch_size * widths,
        symmetric=symmetric,
        value_bytes=2 * 4 * sum(net.value),  # at the observation and at the next one
        networks=(("policy", net.policy), ("value", net.value)),
    )
