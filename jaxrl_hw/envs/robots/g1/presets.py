"""G1's presets."""

from jaxrl_hw.envs.robots.shared_presets import WHOLE_BODY

PRESETS = WHOLE_BODY
