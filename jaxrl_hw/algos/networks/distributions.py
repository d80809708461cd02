"""The diagonal Gaussian over actions, with a standard deviation that no observation changes."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax import Array

LOG_2PI = math.log(2.0 * math.pi)


def sample(key: Array, mean: Array, log_std: Array) -> Array:
    """Draw actions [..., A] around mean [..., A] with log_std [A]. Consumes key."""
    return mean + jnp.exp(log_std) * jax.random.normal(key, mean.shape, mean.dtype)


def log_prob(action: Array, mean: Array, log_std: Array) -> Array:
    """Log density [...] of actions [..., A]."""
    z = (action - mean) * jnp.exp(-log_std)
    return -0.5 * jnp.sum(z**2 + 2.0 * log_std + LOG_2PI, axis=-1)


def entropy(log_std: Array) -> Array:
    """Entropy [] in nats."""
    return jnp.sum(log_std + 0.5 * (1.0 + LOG_2PI))


def kl_divergence(mean_p: Array, log_std_p: Array, mean_q: Array, log_std_q: Array) -> Array:
    """KL(p || q) [...] in nats, for means [..., A] and log_stds [A]."""
    ratio = jnp.exp(2.0 * (log_std_p - log_std_q))
    distance = (mean_p - mean_q) ** 2 * jnp.exp(-2.0 * log_std_q)
    return 0.5 * jnp.sum(ratio + distance - 1.0 + 2.0 * (log_std_q - log_std_p), axis=-1)
