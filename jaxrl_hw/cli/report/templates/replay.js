// A viewer of a recorded episode: primitives on a floor, in WebGL, without any library.
// It reads the JSON of `evaluation.replay.replay_of` from the element #replay-data.
"use strict";
(() => {
  const root = document.getElementById("replay");
  const source = document.getElementById("replay-data");
  if (!root || !source) return;
  const show = JSON.parse(source.textContent);
  const canvas = root.querySelector("canvas");
  const gl = canvas.getContext("webgl", { alpha: false, antialias: true, stencil: true });
  if (!gl) {
    root.querySelector(".stage").innerHTML = "<p>This browser has no WebGL, so there is no replay.</p>";
    return;
  }

  // ---- poses: int16 [frames, bodies, 7]
  const bytes = Uint8Array.from(atob(show.poses), (c) => c.charCodeAt(0));
  const poses = new Int16Array(bytes.buffer);
  const fell = new Set(show.fell);

  function pose(frame, body) {
    const at = (frame * show.bodies + body) * 7;
    const p = poses.subarray(at, at + 7);
    return {
      place: [p[0] * show.unit, p[1] * show.unit, p[2] * show.unit],
      quat: normal([p[3], p[4], p[5], p[6]]),
    };
  }

  function between(time, body) {
    const frame = Math.min(Math.floor(time), show.frames - 1);
    const next = Math.min(frame + 1, show.frames - 1);
    const a = pose(frame, body);
    if (next === frame || fell.has(next)) return a; // a fallen robot starts elsewhere
    const b = pose(next, body), t = time - frame;
    const sign = a.quat.reduce((sum, x, i) => sum + x * b.quat[i], 0) < 0 ? -1 : 1;
    return {
      place: a.place.map((x, i) => x + t * (b.place[i] - x)),
      quat: normal(a.quat.map((x, i) => x + t * (sign * b.quat[i] - x))),
    };
  }

  // ---- small linear algebra: quaternions wxyz, matrices column by column
  function normal(v) {
    const n = Math.hypot(...v) || 1;
    return v.map((x) => x / n);
  }
  const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
  const minus = (a, b) => a.map((x, i) => x - b[i]);
  const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
  const turnBoth = (a, b) => [
    a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3],
    a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2],
    a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1],
    a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0],
  ];
  function columns(q) {
    const [w, x, y, z] = q;
    return [
      [1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)],
      [2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x)],
      [2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)],
    ];
  }
  function rotate(q, v) {
    const c = columns(q);
    return [0, 1, 2].map((i) => c[0][i] * v[0] + c[1][i] * v[1] + c[2][i] * v[2]);
  }
  function modelMatrix(place, quat) {
    const c = columns(quat);
    return new Float32Array([...c[0], 0, ...c[1], 0, ...c[2], 0, ...place, 1]);
  }
  function times(a, b) {
    const out = new Float32Array(16);
    for (let i = 0; i < 4; i++)
      for (let j = 0; j < 4; j++)
        for (let k = 0; k < 4; k++) out[4 * i + j] += a[4 * k + j] * b[4 * i + k];
    return out;
  }
  function perspective(angle, aspect, near, far) {
    const f = 1 / Math.tan(angle / 2);
    return new Float32Array([
      f / aspect, 0, 0, 0, 0, f, 0, 0,
      0, 0, (far + near) / (near - far), -1, 0, 0, (2 * far * near) / (near - far), 0,
    ]);
  }
  function lookAt(eye, target) {
    const back = normal(minus(eye, target)), right = normal(cross([0, 0, 1], back));
    const up = cross(back, right);
    return new Float32Array([
      right[0], up[0], back[0], 0, right[1], up[1], back[1], 0, right[2], up[2], back[2], 0,
      -dot(right, eye), -dot(up, eye), -dot(back, eye), 1,
    ]);
  }

  // ---- meshes of unit size. A vertex is its place [3], its normal [3] and its end: a capsule is a
  // sphere whose halves move apart along z by `half`.
  const RINGS = 16, SIDES = 28;
  function grid(rows, point) {
    const vertices = [], triangles = [];
    for (let i = 0; i <= rows; i++)
      for (let j = 0; j <= SIDES; j++) vertices.push(...point(i, (2 * Math.PI * j) / SIDES));
    for (let i = 0; i < rows; i++)
      for (let j = 0; j < SIDES; j++) {
        const a = i * (SIDES + 1) + j, b = a + SIDES + 1;
        triangles.push(a, b, a + 1, a + 1, b, b + 1);
      }
    return { vertices, triangles };
  }
  function ball() {
    // the equator twice: each half keeps its own end
    return grid(RINGS + 1, (i, angle) => {
      const ring = i <= RINGS / 2 ? i : i - 1, end = i <= RINGS / 2 ? 1 : -1;
      const polar = (Math.PI * ring) / RINGS, r = Math.sin(polar);
      const n = [r * Math.cos(angle), r * Math.sin(angle), Math.cos(polar)];
      return [...n, ...n, end];
    });
  }
  function tube() {
    const rows = [[0, 1, 1], [1, 1, 1], [1, 1, 0], [1, -1, 0], [1, -1, -1], [0, -1, -1]];
    return grid(5, (i, angle) => {
      const [r, z, up] = rows[i], c = Math.cos(angle), s = Math.sin(angle), flat = up === 0 ? 1 : 0;
      return [r * c, r * s, z, flat * c, flat * s, up, 0];
    });
  }
  function cube() {
    const vertices = [], triangles = [];
    for (let axis = 0; axis < 3; axis++)
      for (const side of [-1, 1]) {
        const base = vertices.length / 7;
        for (const [u, v] of [[-1, -1], [1, -1], [1, 1], [-1, 1]]) {
          const p = [0, 0, 0], n = [0, 0, 0];
          p[axis] = n[axis] = side;
          p[(axis + 1) % 3] = u;
          p[(axis + 2) % 3] = v;
          vertices.push(...p, ...n, 0);
        }
        triangles.push(base, base + 1, base + 2, base, base + 2, base + 3);
      }
    return { vertices, triangles };
  }
  function upload(mesh) {
    const vertices = gl.createBuffer(), triangles = gl.createBuffer();
    gl.bindBuffer(gl.ARRAY_BUFFER, vertices);
    gl.bufferData(gl.ARRAY_BUFFER, new Float32Array(mesh.vertices), gl.STATIC_DRAW);
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, triangles);
    gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, new Uint16Array(mesh.triangles), gl.STATIC_DRAW);
    return { vertices, triangles, count: mesh.triangles.length };
  }
  const round = upload(ball()), meshes = {
    sphere: round, ellipsoid: round, capsule: round, cylinder: upload(tube()), box: upload(cube()),
    floor: upload({ vertices: [-1, -1, 0, 0, 0, 1, 0, 1, -1, 0, 0, 0, 1, 0, 1, 1, 0, 0, 0, 1, 0, -1, 1, 0, 0, 0, 1, 0], triangles: [0, 1, 2, 0, 2, 3] }),
  };
  for (const g of show.geoms) {
    const [a, b, c] = g.size;
    g.scale = { sphere: [a, a, a], capsule: [a, a, a], cylinder: [a, a, b], box: [a, b, c], ellipsoid: [a, b, c] }[g.shape];
    g.half = g.shape === "capsule" ? b : 0;
  }

  // ---- one program for everything
  const vertexShader = `
    attribute vec3 place, normal; attribute float end;
    uniform mat4 view, model; uniform vec3 scale; uniform float half_;
    varying vec3 at, n;
    void main() {
      vec4 world = model * vec4(place * scale + vec3(0.0, 0.0, end * half_), 1.0);
      at = world.xyz / world.w;
      n = mat3(model) * (normal / scale);
      gl_Position = view * world;
    }`;
  const fragmentShader = `
    precision highp float;
    uniform vec4 colour; uniform vec3 light, eye, focus; uniform float kind;
    varying vec3 at, n;
    void main() {
      if (kind > 1.5) { gl_FragColor = colour; return; } // a shadow
      vec3 c = colour.rgb; float gleam = 0.0;
      float diffuse = max(0.0, dot(normalize(n), light));
      if (kind > 0.5) { // the floor: tiles of half a metre
        vec2 tile = floor(at.xy * 2.0);
        c *= mod(tile.x + tile.y, 2.0) < 0.5 ? 1.0 : 0.93;
        float fade = smoothstep(3.0, 14.0, distance(at.xy, focus.xy));
        gl_FragColor = vec4(mix(c, vec3(0.86, 0.90, 0.94), fade), 1.0);
        return;
      }
      vec3 middle = normalize(light + normalize(eye - at));
      gleam = 0.22 * pow(max(0.0, dot(normalize(n), middle)), 30.0);
      gl_FragColor = vec4(c * (0.42 + 0.16 * normalize(n).z + 0.55 * diffuse) + gleam, colour.a);
    }`;
  function shader(type, text) {
    const made = gl.createShader(type);
    gl.shaderSource(made, text);
    gl.compileShader(made);
    if (!gl.getShaderParameter(made, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(made));
    return made;
  }
  const program = gl.createProgram();
  gl.attachShader(program, shader(gl.VERTEX_SHADER, vertexShader));
  gl.attachShader(program, shader(gl.FRAGMENT_SHADER, fragmentShader));
  gl.linkProgram(program);
  gl.useProgram(program);
  const uniform = {}, attribute = {};
  for (const name of ["view", "model", "scale", "half_", "colour", "light", "eye", "focus", "kind"])
    uniform[name] = gl.getUniformLocation(program, name);
  for (const name of ["place", "normal", "end"]) {
    attribute[name] = gl.getAttribLocation(program, name);
    gl.enableVertexAttribArray(attribute[name]);
  }
  function draw(mesh, matrix, scale, half, colour, kind) {
    gl.bindBuffer(gl.ARRAY_BUFFER, mesh.vertices);
    gl.vertexAttribPointer(attribute.place, 3, gl.FLOAT, false, 28, 0);
    gl.vertexAttribPointer(attribute.normal, 3, gl.FLOAT, false, 28, 12);
    gl.vertexAttribPointer(attribute.end, 1, gl.FLOAT, false, 28, 24);
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, mesh.triangles);
    gl.uniformMatrix4fv(uniform.model, false, matrix);
    gl.uniform3fv(uniform.scale, scale);
    gl.uniform1f(uniform.half_, half);
    gl.uniform4fv(uniform.colour, colour);
    gl.uniform1f(uniform.kind, kind);
    gl.drawElements(gl.TRIANGLES, mesh.count, gl.UNSIGNED_SHORT, 0);
  }

  // ---- the camera orbits about the body in focus; how far away follows from how large it all is
  const reach = show.geoms.reduce((far, g) => Math.max(far, Math.hypot(...minus(rotate(pose(0, g.body).quat, g.place).map((x, i) => x + pose(0, g.body).place[i]), pose(0, show.focus).place)) + Math.max(...g.scale)), 0.2);
  const home = { turn: 0.7, rise: 0.25, away: 2.6 * reach };
  let camera = { ...home };
  const LIGHT = normal([0.45, -0.4, 0.8]);
  const squash = new Float32Array([1, 0, 0, 0, 0, 1, 0, 0, -LIGHT[0] / LIGHT[2], -LIGHT[1] / LIGHT[2], 0, 0, 0, 0, 0.002, 1]);

  function render(time) {
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    const [w, h] = [canvas.clientWidth, canvas.clientHeight].map((x) => Math.max(1, Math.round(x * ratio)));
    if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
    gl.viewport(0, 0, w, h);
    gl.clearColor(0.86, 0.9, 0.94, 1);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT | gl.STENCIL_BUFFER_BIT);
    gl.enable(gl.DEPTH_TEST);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA);
    const target = between(time, show.focus).place;
    const flat = camera.away * Math.cos(camera.rise);
    const eye = [target[0] + flat * Math.sin(camera.turn), target[1] - flat * Math.cos(camera.turn), Math.max(0.03, target[2] + camera.away * Math.sin(camera.rise))];
    gl.uniformMatrix4fv(uniform.view, false, times(perspective(0.75, w / h, 0.03, 60), lookAt(eye, target)));
    gl.uniform3fv(uniform.light, LIGHT);
    gl.uniform3fv(uniform.eye, eye);
    gl.uniform3fv(uniform.focus, target);
    draw(meshes.floor, modelMatrix([target[0], target[1], 0], [1, 0, 0, 0]), [15, 15, 1], 0, [0.72, 0.76, 0.8, 1], 1);
    const placed = show.geoms.map((g) => {
      const body = between(time, g.body);
      const place = rotate(body.quat, g.place).map((x, i) => x + body.place[i]);
      return [g, modelMatrix(place, turnBoth(body.quat, normal(g.quat)))];
    });
    gl.enable(gl.STENCIL_TEST); // overlapping shadows are no darker
    gl.stencilFunc(gl.EQUAL, 0, 1);
    gl.stencilOp(gl.KEEP, gl.KEEP, gl.INCR);
    for (const [g, matrix] of placed) draw(meshes[g.shape], times(squash, matrix), g.scale, g.half, [0.12, 0.16, 0.22, 0.35], 2);
    gl.disable(gl.STENCIL_TEST);
    for (const [g, matrix] of placed) draw(meshes[g.shape], matrix, g.scale, g.half, g.colour, 0);
  }

  // ---- controls
  const button = root.querySelector("button"), slider = root.querySelector("input");
  const speed = root.querySelector("select"), clock = root.querySelector("output");
  let time = 0, playing = !matchMedia("(prefers-reduced-motion: reduce)").matches, visible = true, before = null;
  slider.max = show.frames - 1;

  function label() {
    const frame = Math.min(Math.floor(time), show.frames - 1);
    const text = show.texts[frame] ? ` · ${show.texts[frame]}` : "";
    clock.textContent = `${(frame * show.frame_s).toFixed(1)} s${text}`;
    slider.value = frame;
    button.textContent = playing ? "Pause" : "Play";
  }
  function tick(now) {
    const passed = before === null ? 0 : Math.min(0.1, (now - before) / 1000);
    before = now;
    if (playing && visible) {
      time = (time + (passed * Number(speed.value)) / show.frame_s) % show.frames;
      label();
      render(time);
    }
    requestAnimationFrame(tick);
  }
  const refresh = () => { label(); render(time); };
  button.addEventListener("click", () => { playing = !playing; refresh(); });
  slider.addEventListener("input", () => { playing = false; time = Number(slider.value); refresh(); });
  let held = null;
  canvas.addEventListener("pointerdown", (e) => { held = [e.clientX, e.clientY]; canvas.setPointerCapture(e.pointerId); });
  canvas.addEventListener("pointerup", () => { held = null; });
  canvas.addEventListener("pointercancel", () => { held = null; });
  canvas.addEventListener("pointermove", (e) => {
    if (!held) return;
    camera.turn -= (e.clientX - held[0]) * 0.008;
    camera.rise = Math.max(-0.1, Math.min(1.5, camera.rise + (e.clientY - held[1]) * 0.006));
    held = [e.clientX, e.clientY];
    refresh();
  });
  canvas.addEventListener("wheel", (e) => {
    if (!e.ctrlKey) return; // without Ctrl the page scrolls
    e.preventDefault();
    camera.away = Math.max(0.4 * home.away, Math.min(4 * home.away, camera.away * Math.exp(e.deltaY * 0.002)));
    refresh();
  }, { passive: false });
  canvas.addEventListener("dblclick", () => { camera = { ...home }; refresh(); });
  new IntersectionObserver((seen) => { visible = seen[0].isIntersecting; }).observe(canvas);
  new ResizeObserver(refresh).observe(canvas);
  refresh();
  requestAnimationFrame(tick);
})();
