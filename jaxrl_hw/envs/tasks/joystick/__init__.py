"""A legged robot follows a commanded planar velocity and yaw rate."""
