'use strict';
// Shows a running stream and sends requested changes. Everything that comes from the server is inserted as text.
(function () {
  const token = document.querySelector('meta[name=headroom-token]').content;
  const pollEvery = 500, retryEvery = 3000, patience = 2000;  // ms
  const element = function (id) { return document.getElementById(id); };
  const sides = ['input', 'output'];
  const numbers = ['strength', 'steps', 'guidance_scale', 'similarity', 'seed'];
  const texts = ['prompt', 'negative_prompt'];
  const digits = {strength: 2, steps: 0, guidance_scale: 1, similarity: 3};

  let shown = -1, shownSince = 0;   // number of the newest frame, and the time at which it appeared
  let goal = {};                    // requested settings that the server knows
  let wishes = {}, sending = false; // changes not sent yet
  let timer = 0;

  function put(id, text) {
    const target = element(id);
    if (target.textContent !== text) target.textContent = text;
  }
  function time(ms) {  // three digits, in the units of the program's tables
    const [size, unit] = ms === 0 || (ms >= 0.9995 && ms < 999.5) ? [1, 'ms'] : ms < 1 ? [1e-3, 'µs'] : [1e3, 's'];
    const value = ms / size;
    return value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0) + ' ' + unit;
  }
  function count(value) { return value.toLocaleString('en'); }

  // ---- images: only while the page is visible, since browsers open at most six connections to a server

  function show_pictures(visible) {
    sides.forEach(function (side) {
      const picture = document.querySelector('#' + side + ' img');
      if (!visible) picture.removeAttribute('src');
      else if (!picture.hasAttribute('src')) picture.src = '/' + side + '.mjpeg';
    });
  }
  sides.forEach(function (side) {
    const picture = document.querySelector('#' + side + ' img');
    const note = document.querySelector('#' + side + ' .note');
    picture.addEventListener('load', function () { note.textContent = ''; });
    picture.addEventListener('error', function () {
      if (!picture.hasAttribute('src')) return;
      picture.removeAttribute('src');
      if (document.body.dataset.state !== 'ended') note.textContent = 'no picture: perhaps too many pages are open';
      setTimeout(function () { if (!document.hidden && document.body.dataset.state !== 'ended') show_pictures(true); }, retryEvery);
    });
  });

  // ---- properties and speed of the stream

  function state_of(status, now) {
    if (status.shown !== shown) { shown = status.shown; shownSince = now; }
    if (status.ended) return ['ended', 'the stream has ended'];
    if (status.goal.paused) return ['paused', 'paused'];
    if (shown === 0) return ['waiting', 'waiting for the first frame'];
    const still = now - shownSince, usual = status.fps > 0 ? 10000 / status.fps : 0;
    if (still > Math.max(patience, usual)) return ['stalled', 'no new frame for ' + Math.floor(still / 1000) + ' s'];
    return ['running', 'running'];
  }
  function show_state(state) {
    document.body.dataset.state = state[0];
    put('state-text', state[1]);
  }

  function show_curve(status) {
    const points = status.curve.worst_ms, pace = status.input_fps > 0 ? 1000 / status.input_fps : 0;
    const top = 1.15 * Math.max.apply(null, points.concat(pace < 3 * status.latency_ms.p50 ? [pace] : [0])) || 1;
    const places = points.map(function (ms, i) {
      const x = points.length > 1 ? 1000 * i / (points.length - 1) : 1000;
      return x.toFixed(1) + ',' + (100 - 100 * ms / top).toFixed(2);
    });
    element('curve-line').setAttribute('points', places.join(' '));
    element('curve-area').setAttribute('d', 'M0,100 L' + places.join(' L') + ' L1000,100 Z');
    const line = element('pace'), seen = pace > 0 && pace < top;
    line.toggleAttribute('hidden', !seen);
    if (seen) ['y1', 'y2'].forEach(function (y) { line.setAttribute(y, (100 - 100 * pace / top).toFixed(2)); });
    const worst = time(Math.max.apply(null, points));
    put('curve-top', 'worst ' + worst);
    let note = status.curve.frames_each === 1 ? 'A point is a frame' : 'A point is the worst of ' + status.curve.frames_each + ' frames';
    note += ', ' + count(status.frames_timed) + ' in all';
    if (seen) note += '; dashed: a frame of the input comes every ' + time(pace);
    put('curve-note', note + '.');
    element('curve').setAttribute('aria-label', 'Latency of the last ' + status.frames_timed + ' frames: median ' +
      time(status.latency_ms.p50) + ', worst ' + worst);
  }
  function show_parts(parts) {
    Object.keys(parts).forEach(function (part) {
      document.querySelector('.bar .' + part).style.flexGrow = String(parts[part]);
      put('part-' + part, time(parts[part]));
    });
    element('parts').hidden = false;
  }

  function show_status(status) {
    const state = state_of(status, performance.now());
    show_state(state);
    document.title = status.model + ' – headroom stream';
    put('model', status.model);
    put('about', [status.device, status.width + ' × ' + status.height, status.switches].filter(Boolean).join(' · '));
    document.querySelector('.pictures').classList.toggle('small', status.width <= 128);
    document.querySelectorAll('.screen').forEach(function (screen) {
      screen.style.aspectRatio = status.width + ' / ' + status.height;
    });
    put('fps', state[0] === 'running' ? status.fps.toFixed(status.fps < 100 ? 1 : 0) : '–');
    ['shown', 'dropped', 'repeated'].forEach(function (counter) { put(counter, count(status[counter])); });
    if (status.latency_ms) {
      Object.keys(status.latency_ms).forEach(function (name) { put(name, time(status.latency_ms[name])); });
      show_curve(status);
      show_parts(status.parts_ms);
    }
    show_controls(status);
  }

  // ---- controls

  function show_value(name, value) {
    const label = document.querySelector('output[for=' + name + ']');
    if (label) label.textContent = Number(value).toFixed(digits[name]);
  }
  function show_controls(status) {
    goal = status.goal;
    const over = status.ended;
    document.querySelectorAll('[data-control]').forEach(function (control) { control.hidden = !(control.dataset.control in goal); });
    element('none').hidden = Object.keys(goal).length > 0;
    element('apply').hidden = !texts.some(function (name) { return name in goal; });
    texts.concat(numbers).forEach(function (name) {
      const field = element(name);
      field.disabled = over;
      if (!(name in goal) || name in wishes || field === document.activeElement || field.dataset.edited) return;
      if (field.value !== String(goal[name])) field.value = goal[name];
      show_value(name, goal[name]);
    });
    const pause = element('pause');
    pause.disabled = over;
    pause.setAttribute('aria-pressed', String(Boolean(goal.paused)));
    pause.textContent = goal.paused ? 'Go on' : 'Pause';
    element('apply').disabled = over;
    if (status.obstacle) put('message', status.obstacle);
  }

  // One request at a time; changes made meanwhile go with the next one, only the last of each kind.
  async function send() {
    if (sending) return;
    sending = true;
    while (Object.keys(wishes).length > 0) {
      const body = JSON.stringify(wishes), sent = wishes;
      wishes = {};
      try {
        const answer = await fetch('/controls', {
          method: 'POST', body: body, headers: {'Content-Type': 'application/json', 'X-Headroom-Token': token}
        });
        if (answer.ok) {
          Object.keys(sent).forEach(function (name) { if (element(name)) delete element(name).dataset.edited; });
          put('message', '');
          show_status(await answer.json());
        } else {
          put('message', (await answer.text()).trim());
        }
      } catch (error) {
        put('message', 'The change could not be sent: headroom does not answer.');
      }
    }
    sending = false;
  }
  function wish(name, value) {
    wishes[name] = value;
    send();
  }
  function wish_texts() {
    texts.forEach(function (name) {
      const value = element(name).value.replace(/\s+/g, ' ').trim();
      if (name in goal && value !== goal[name]) wish(name, value);
      else delete element(name).dataset.edited;
    });
  }

  numbers.forEach(function (name) {
    const field = element(name);
    field.addEventListener(field.type === 'range' ? 'input' : 'change', function () {
      if (field.value === '' || !field.checkValidity()) { put('message', field.validationMessage); return; }
      show_value(name, field.value);
      wish(name, Number(field.value));
    });
  });
  texts.forEach(function (name) {
    const field = element(name);
    field.addEventListener('input', function () { field.dataset.edited = 'yes'; });
    field.addEventListener('keydown', function (event) {
      if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      wish_texts();
    });
  });
  element('controls').addEventListener('submit', function (event) {
    event.preventDefault();
    wish_texts();
  });
  element('pause').addEventListener('click', function () { wish('paused', !goal.paused); });

  // ---- polling

  async function poll() {
    clearTimeout(timer);
    if (document.hidden) return;
    try {
      const answer = await fetch('/status');
      if (!answer.ok) throw new Error(await answer.text());
      show_status(await answer.json());
    } catch (error) {
      if (document.body.dataset.state !== 'ended') show_state(['gone', 'headroom does not answer: it has ended, or cannot be reached']);
    }
    clearTimeout(timer);
    timer = setTimeout(poll, document.body.dataset.state === 'ended' ? 4 * pollEvery : pollEvery);
  }
  function look() {
    show_pictures(!document.hidden);
    poll();
  }
  document.addEventListener('visibilitychange', look);
  // The load event comes before the images are requested, because these never finish loading.
  if (document.readyState === 'complete') look();
  else window.addEventListener('load', look);
})();
