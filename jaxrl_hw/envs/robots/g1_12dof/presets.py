"""G1 with legs only: its presets."""

from jaxrl_hw.envs.robots.shared_presets import LEGS_DRIVEN

PRESETS = LEGS_DRIVEN
