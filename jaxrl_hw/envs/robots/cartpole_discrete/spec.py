"""The cartpole whose motor knows five forces only: for algorithms that choose from a set."""

from dataclasses import replace

from jaxrl_hw.envs.robots.cartpole import spec

SPEC = replace(spec.SPEC, name="cartpole_discrete")
