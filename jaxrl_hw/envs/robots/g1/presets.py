"""G1's presets."""

from typing import Any

from jaxrl_hw.envs.robots.shared_presets import WHOLE_BODY

PRESETS: dict[str, dict[str, Any]] = {
    **WHOLE_BODY,
    "all": {
        **WHOLE_BODY["all"],
        "joystick.gait_period": 0.5,  # a pushed robot catches itself sooner
    },
}
