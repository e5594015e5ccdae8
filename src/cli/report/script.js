'use strict';
// Draws the report from the JSON in #data. No library, nothing is fetched.
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const run = data.run, other = data.before, limits = data.limits;
  const tuned = !data.is_compiled;  // else the tasks are kernels of compiled models: nothing was searched

  // --- small helpers ---------------------------------------------------------------------------------------------

  const SVG = 'http://www.w3.org/2000/svg';
  const put = (element, attributes, children) => {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name === 'on') for (const [event, call] of Object.entries(value)) element.addEventListener(event, call);
      else element.setAttribute(name, value);
    }
    for (const child of [].concat(children === undefined || children === null ? [] : children))
      element.append(child);  // strings become text nodes: names cannot become markup
    return element;
  };
  const h = (tag, attributes, children) => put(document.createElement(tag), attributes, children);
  const s = (tag, attributes, children) => put(document.createElementNS(SVG, tag), attributes, children);

  const time = seconds => {
    if (!(seconds > 0)) return '–';
    if (seconds < 1e-3) return (seconds * 1e6).toPrecision(seconds < 1e-6 ? 2 : 3).replace(/e\+\d+/, '') + ' µs';
    if (seconds < 1) return (seconds * 1e3).toPrecision(seconds < 0.1 ? 3 : 4) + ' ms';
    return seconds.toPrecision(4) + ' s';
  };
  const span = seconds => seconds < 90 ? seconds.toFixed(seconds < 10 ? 1 : 0) + ' s'
    : seconds < 5400 ? (seconds / 60).toFixed(1) + ' min' : (seconds / 3600).toFixed(1) + ' h';
  const count = n => n.toLocaleString('en');
  const percent = (x, digits = 1) => (100 * x).toFixed(digits) + ' %';
  const times = x => x > 0 && isFinite(x) ? x.toFixed(2) + ' ×' : '–';
  const clip = (text, n) => {
    const letters = [...text];  // whole characters
    return letters.length > n ? letters.slice(0, n - 1).join('') + '…' : text;
  };
  const share = task => run.estimated_s > 0 ? task.weight * task.best_s / run.estimated_s : 0;
  const color = i => i < 7 ? `var(--s${i})` : 'var(--s7)';

  // About n round numbers from 0 to max.
  const ticks = (max, n) => {
    if (!(max > 0)) return [0];
    const rough = max / n, magnitude = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map(m => m * magnitude).find(m => m >= rough * 0.999);
    const list = [];
    for (let i = 0; i * step <= max * 1.0001; ++i) list.push(i * step);
    return list;
  };

  const sections = [];
  const section = (id, title, short, children) => {
    sections.push([id, short]);
    return h('section', {id, 'aria-labelledby': id + '-title'}, [h('h2', {id: id + '-title'}, title), ...children]);
  };

  // --- tables that sort -------------------------------------------------------------------------------------------

  // columns: {name, left, key: row → value to sort by, cell: row → node or text, title}
  // detail: row → node, shown beneath the row when its name is pressed.
  const table = (label, columns, rows, options = {}) => {
    const body = h('tbody');
    const heads = [];
    let current = rows.slice(), sorted = options.sorted ?? -1, down = true, words = '';
    const build = row => {
      const cells = columns.map((column, i) => {
        const content = column.cell(row);
        if (i > 0 || !options.detail)
          return h('td', {class: column.left ? 'l' + (i === 0 ? ' name' : '') : null}, content);
        const button = h('button', {type: 'button', 'aria-expanded': 'false'}, content[0]);
        const cell = h('td', {class: 'l name'}, [button, ...content.slice(1)]);
        button.addEventListener('click', () => {
          const line = cell.parentNode, open = button.getAttribute('aria-expanded') === 'true';
          button.setAttribute('aria-expanded', String(!open));
          if (open) line.nextSibling.remove();
          else line.after(h('tr', {class: 'detail'}, h('td', {colspan: columns.length}, options.detail(row))));
        });
        return cell;
      });
      return h('tr', {id: options.id?.(row)}, cells);
    };
    const lines = new Map();  // each row is made once, when it is first shown
    const fill = () => {
      const shown = words ? current.filter(row => options.text(row).includes(words)) : current;
      const part = document.createDocumentFragment();
      for (const row of shown) {
        if (!lines.has(row)) lines.set(row, build(row));
        const line = lines.get(row);
        line.querySelector('button')?.setAttribute('aria-expanded', 'false');
        part.append(line);
      }
      body.replaceChildren(part);
      return shown.length;
    };
    const sort = i => {
      down = sorted === i ? !down : !columns[i].left;
      sorted = i;
      const key = columns[i].key, sign = down ? -1 : 1;
      const keyed = rows.map(row => [key(row), row]);
      keyed.sort(([a], [b]) => sign * (typeof a === 'string' ? a.localeCompare(b) : a - b));
      current = keyed.map(pair => pair[1]);
      heads.forEach((head, k) => k === i ? head.setAttribute('aria-sort', down ? 'descending' : 'ascending')
                                         : head.removeAttribute('aria-sort'));
      fill();
    };
    columns.forEach((column, i) => heads.push(h('th', {class: column.left ? 'l' : null, scope: 'col', title: column.title,
      'aria-sort': i === sorted ? 'descending' : null}, h('button', {type: 'button', on: {click: () => sort(i)}}, column.name))));
    const made = h('div', {class: 'scroll', role: 'region', 'aria-label': label, tabindex: '0'},
      h('table', {}, [h('thead', {}, h('tr', {}, heads)), body]));
    fill();
    if (!options.text || rows.length < 12) return [made];
    const result = h('span', {class: 'soft', role: 'status'}, `${count(rows.length)} tasks`);
    const search = h('input', {type: 'search', placeholder: 'Filter by operator or node', 'aria-label': 'Filter ' + label, on: {input: () => {
      words = search.value.trim().toLowerCase();
      result.textContent = `${count(fill())} of ${count(rows.length)} tasks`;
    }}});
    return [h('div', {class: 'tools'}, [search, result]), made];
  };

  // --- charts -----------------------------------------------------------------------------------------------------

  const frame = (label, width, height, children) =>
    h('div', {class: 'scroll chart', role: 'region', 'aria-label': label, tabindex: '0'},
      s('svg', {viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': label}, children));
  const text = (x, y, content, attributes = {}) => s('text', {x, y, ...attributes}, content);

  // Latency against time: steps, since what is best so far holds until something better is found.
  const curve = () => {
    const runs = [[run, 'var(--s0)'], ...(other ? [[other, 'var(--s1)']] : [])].filter(([r]) => r.points.length > 0);
    const width = 1000, height = 330, left = 70, right = 20, top = 16, bottom = 44;
    const end = Math.max(...runs.map(([r]) => r.points.at(-1)[0]), 1e-9);
    const high = Math.max(...runs.flatMap(([r]) => r.points.map(p => p[1])), run.default_s) * 1.05;
    const x = t => left + (width - left - right) * t / end;
    const y = v => height - bottom - (height - top - bottom) * v / high;
    const parts = [];
    for (const v of ticks(high, 5)) {
      parts.push(s('line', {class: v ? 'grid' : 'axis', x1: left, x2: width - right, y1: y(v), y2: y(v)}));
      parts.push(text(left - 8, y(v) + 4, v ? time(v) : '0', {'text-anchor': 'end'}));
    }
    for (const t of ticks(end, 8)) parts.push(text(x(t), height - bottom + 18, span(t), {'text-anchor': 'middle'}));
    parts.push(text((left + width - right) / 2, height - 6, 'time spent searching', {'text-anchor': 'middle'}));
    if (run.default_s > 0)
      parts.push(s('line', {x1: left, x2: width - right, y1: y(run.default_s), y2: y(run.default_s), stroke: 'var(--soft)', 'stroke-dasharray': '6 5'}));
    for (const [r, stroke] of runs) {
      let path = '';
      r.points.forEach(([t, v], i) => path += i ? `H${x(t).toFixed(1)}V${y(v).toFixed(1)}` : `M${x(t).toFixed(1)} ${y(v).toFixed(1)}`);
      parts.push(s('path', {d: path, fill: 'none', stroke, 'stroke-width': 2.2, 'stroke-linejoin': 'round'}));
      const last = r.points.at(-1);
      parts.push(s('circle', {cx: x(last[0]), cy: y(last[1]), r: 4, fill: stroke}));
    }
    const entries = [h('li', {}, [h('i', {style: 'background:var(--s0)'}), `${other ? data.names[0] : 'estimated'}: ${time(run.estimated_s)}`])];
    if (other) entries.push(h('li', {}, [h('i', {style: 'background:var(--s1)'}), `${data.names[1]}: ${time(other.estimated_s)}`]));
    if (run.default_s > 0) entries.push(h('li', {}, [h('i', {class: 'dash'}), `untuned: ${time(run.default_s)}`]));
    return section('latency', 'Latency over time', 'Latency', [
      h('p', {class: 'note'}, 'The sum over all kernels of the best time measured so far, times how often the model runs each. ' +
        'A kernel not measured yet counts with its untuned time. Records of earlier runs count from the start.'),
      frame(`Estimated latency over time: from ${time(run.points[0]?.[1])} to ${time(run.estimated_s)}`, width, height, parts),
      h('ul', {class: 'legend'}, entries)]);
  };

  // One bar for the model's time, and the names of what takes most.
  const shares = () => {
    const width = 1000, height = 44, most = 7;
    const parts = [], entries = [];
    let at = 0;
    run.tasks.slice(0, most).forEach((task, i) => {
      const w = width * share(task);
      parts.push(s('rect', {x: at, y: 4, width: Math.max(w - 1, 0.5), height: 36, fill: color(i)}, s('title', {}, `${task.label}: ${percent(share(task))}`)));
      if (w > 46) parts.push(text(at + w / 2, 27, percent(share(task), 0), {'text-anchor': 'middle', style: 'fill:var(--card);font-weight:600'}));
      entries.push(h('li', {}, [h('i', {style: `background:${color(i)}`}), `${clip(task.label, 44)} · ${percent(share(task))}`]));
      at += w;
    });
    const rest = Math.max(0, 1 - at / width);
    if (run.tasks.length > most) {
      parts.push(s('rect', {x: at, y: 4, width: Math.max(width - at, 0.5), height: 36, fill: 'var(--s7)', opacity: 0.45}, s('title', {}, `all others: ${percent(rest)}`)));
      entries.push(h('li', {}, [h('i', {style: 'background:var(--s7);opacity:.45'}), `${count(run.tasks.length - most)} others · ${percent(rest)}`]));
    }
    return section('share', 'Where the time goes', 'Shares', [
      h('p', {class: 'note'}, tuned ? 'Each task’s share of the estimated latency.' : `Each kernel’s share of the time of all, in ${data.names[0]}.`),
      h('div', {class: 'bar'}, s('svg', {viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', role: 'img',
        'aria-label': 'Shares of the estimated latency'}, parts)), h('ul', {class: 'legend'}, entries)]);
  };

  const nodes = calls => calls.map(call => h('div', {}, [
    h('h3', {}, call.name),
    call.nodes.length ? h('ul', {class: 'chips'}, call.nodes.map(([op, name]) => h('li', {}, [h('b', {}, op), name])))
                      : h('p', {class: 'note'}, 'No node of the model: memory is moved.')]));
  const code = (title, content) => h('div', {}, [h('h3', {}, title), h('pre', {tabindex: '0', 'aria-label': title}, content)]);
  const detail = task => {
    const most = 12;
    const facts = [`${tuned ? 'task' : 'kernel'} ${task.hash.slice(0, 8)}`, `${count(task.weight)} call${task.weight === 1 ? '' : 's'} a run`];
    if (tuned) facts.push(task.flops > 0 ? (task.flops / 1e6).toPrecision(4) + ' Mflop a call' : 'no multiply-adds', (task.bytes / 1e3).toPrecision(4) + ' kB touched');
    if (task.limit_s > 0) facts.push(`at least ${time(task.limit_s)} a call (${task.limit})`);
    const parts = [h('p', {class: 'note'}, facts.join(' · ')), ...nodes(task.calls.slice(0, most))];
    if (task.calls.length > most) parts.push(h('p', {class: 'note'}, `and ${count(task.calls.length - most)} more calls`));
    if (!tuned) return parts;
    parts.push(h('div', {class: 'pair'}, [code('What is computed', task.workload),
      code('The best program found', task.program || 'nothing was measured')]));
    if (task.trace) parts.push(code('Its schedule, step by step', task.trace));
    return parts;
  };
  const name = task => {
    const first = task.calls[0]?.nodes[0];
    return [task.label, first ? h('small', {}, `from ${first[0]} ${clip(first[1], 60)}` +
      (task.calls.length > 1 ? ` and ${count(task.calls.length - 1)} more place${task.calls.length > 2 ? 's' : ''}` : '')) : h('small', {}, `task ${task.hash.slice(0, 8)}`)];
  };
  const searchable = task => task.text ??= (task.label + ' ' + task.hash + ' ' + task.calls.map(call => call.name + ' ' + call.nodes.map(n => n.join(' ')).join(' ')).join(' ')).toLowerCase();

  const tasks = () => {
    const columns = [
      {name: tuned ? 'Task' : 'Kernel', left: true, key: t => t.label, cell: name},
      {name: 'Share', key: share, cell: t => [percent(share(t)), h('span', {class: 'meter', 'aria-hidden': 'true'}, h('i', {style: `width:${(100 * share(t)).toFixed(1)}%`}))], title: 'of the estimated latency'},
      {name: 'Calls', key: t => t.weight, cell: t => count(t.weight), title: 'in one run of the model'},
      ...(tuned ? [{name: 'Untuned', key: t => t.default_s, cell: t => time(t.default_s), title: 'one call'}] : []),
      {name: tuned ? 'Best' : 'Time', key: t => t.best_s, cell: t => time(t.best_s), title: 'one call'},
      ...(tuned ? [
      {name: 'Gain', key: t => t.best_s > 0 ? t.default_s / t.best_s : 0, cell: t => times(t.default_s / t.best_s)},
      {name: 'Trials', key: t => t.trials, cell: t => count(t.trials), title: 'measured in this run'},
      {name: 'Failed', key: t => t.failed, cell: t => t.failed ? h('span', {class: 'bad'}, count(t.failed)) : '0'}] : []),
    ];
    if (limits) columns.splice(6, 0, {name: 'Of limit', key: t => t.best_s > 0 ? t.limit_s / t.best_s : 0,
      cell: t => t.best_s > 0 && t.limit_s > 0 ? percent(t.limit_s / t.best_s, 0) : '–', title: 'the least time that the machine needs, over the best time'});
    if (run.tasks.some(t => t.in_model_s > 0)) columns.splice(5, 0, {name: 'In the model', key: t => t.in_model_s,
      cell: t => time(t.in_model_s), title: 'one call while the whole model runs'});
    return section('tasks', tuned ? 'Tasks' : 'Kernels', tuned ? 'Tasks' : 'Kernels', [
      h('p', {class: 'note'}, !tuned ? `Those of ${data.names[0]}. Press a name for the model’s nodes.` : 'Equal pieces of work are one task. Press a name for the model’s nodes, the program before and after, and the schedule.'),
      ...table('Tasks', columns, run.tasks, {detail, text: searchable, sorted: 1, id: rowOf})]);
  };
  const rowOf = task => 't-' + task.hash;

  // --- the graph of calls -----------------------------------------------------------------------------------------

  // Calls in order → boxes; a sequence of tasks that comes again and again is shown once: [a b c][a b c] → (a b c) × 2.
  const boxesOf = calls => {
    const key = calls.map(call => call.hash || call.name);
    const boxes = [], boxOf = [], frames = [];
    const add = (i, times) => {
      boxOf[i] = boxes.length;
      boxes.push({call: calls[i], calls: [calls[i]], times, from: new Set()});
    };
    const longest = 400, worthIt = 4;  // calls that a repetition must save
    for (let i = 0; i < calls.length;) {
      let best = {saved: 0, period: 1, times: 1};
      for (let period = 2; period <= Math.min(longest, (calls.length - i) >> 1); ++period) {
        let end = i + period;
        while (end < calls.length && key[end] === key[end - period]) ++end;
        const times = Math.floor((end - i) / period), saved = (times - 1) * period;
        if (saved > best.saved) best = {saved, period, times};
      }
      if (best.saved < worthIt) {
        add(i++, 1);
        continue;
      }
      const first = boxes.length;
      for (let k = 0; k < best.period; ++k) add(i + k, best.times);
      for (let k = best.period; k < best.period * best.times; ++k) {
        boxOf[i + k] = first + k % best.period;
        boxes[boxOf[i + k]].calls.push(calls[i + k]);
      }
      frames.push({first, last: boxes.length - 1, times: best.times});
      i += best.period * best.times;
    }
    calls.forEach((call, i) => call.from.forEach(j => {
      if (boxOf[j] < boxOf[i]) boxes[boxOf[i]].from.add(boxOf[j]);
    }));
    return {boxes, frames};
  };

  // Layers from top to bottom; an edge that crosses a layer has a narrow place of its own there.
  const layersOf = boxes => {
    const layers = [];
    const put = (cell, layer) => {
      cell.layer = layer;
      (layers[layer] ??= []).push(cell);
    };
    const cells = boxes.map(box => ({box, above: [], path: []}));
    boxes.forEach((box, i) => put(cells[i], Math.max(0, ...[...box.from].map(j => cells[j].layer + 1))));
    boxes.forEach((box, i) => box.from.forEach(j => {
      let at = cells[j];
      for (let layer = cells[j].layer + 1; layer < cells[i].layer; ++layer) {
        cells[j].path[layer] ??= {above: [at]};
        if (cells[j].path[layer].layer === undefined) put(cells[j].path[layer], layer);
        at = cells[j].path[layer];
      }
      cells[i].above.push(at);
    }));
    const wide = 168, narrow = 18, gap = 14;
    const place = layer => {
      const width = layer.reduce((sum, cell) => sum + (cell.box ? wide : narrow) + gap, -gap);
      let x = -width / 2;
      for (const cell of layer) {
        const w = cell.box ? wide : narrow;
        cell.x = x + w / 2;
        x += w + gap;
      }
      return width;
    };
    let width = 0;
    for (const layer of layers) {
      const middle = cell => cell.above.length ? cell.above.reduce((sum, a) => sum + a.x, 0) / cell.above.length : 0;
      layer.sort((a, b) => middle(a) - middle(b));
      width = Math.max(width, place(layer));
    }
    return {layers, cells, width, wide};
  };

  const graph = () => {
    const taskOf = new Map(run.tasks.map(task => [task.hash, task]));
    const {boxes, frames} = boxesOf(run.calls), {layers, cells, width, wide} = layersOf(boxes);
    const total = run.calls.reduce((sum, call) => sum + call.seconds, 0) || 1;
    const shareOf = box => box.calls.reduce((sum, call) => sum + call.seconds, 0) / total;
    const most = Math.max(...boxes.map(shareOf), 1e-9);
    const tall = 38, step = 64, side = 34, top = 14;
    const x = cell => side + width / 2 + cell.x, y = layer => top + layer * step;
    const parts = [];
    for (const {first, last, times} of frames) {
      const inside = cells.slice(first, last + 1), low = Math.min(...inside.map(c => c.layer)), high = Math.max(...inside.map(c => c.layer));
      const left = Math.min(...inside.map(x)) - wide / 2 - 8, right = Math.max(...inside.map(x)) + wide / 2 + 8;
      parts.push(s('rect', {class: 'again', x: left, y: y(low) - 8, width: right - left, height: (high - low) * step + tall + 16, rx: 8}));
      parts.push(text(right + 4, y(low) + 4, `× ${times}`, {class: 'ink'}));
    }
    for (const cell of layers.flat())
      for (const above of cell.above) {
        const from = y(above.layer) + (above.box ? tall : tall / 2), to = y(cell.layer) + (cell.box ? 0 : tall / 2), half = (from + to) / 2;
        parts.push(s('path', {class: 'edge', d: `M${x(above).toFixed(1)} ${from}C${x(above).toFixed(1)} ${half} ${x(cell).toFixed(1)} ${half} ${x(cell).toFixed(1)} ${to}`}));
      }
    for (const cell of cells) {
      const {box} = cell, task = taskOf.get(box.call.hash), level = Math.round(100 * shareOf(box) / most);
      const what = box.call.name.slice(box.call.name.lastIndexOf(': ') + 1).trim();
      const seconds = box.calls.reduce((sum, call) => sum + call.seconds, 0) / box.calls.length;
      const tells = `${box.call.name}${box.times > 1 ? ` and ${box.times - 1} more like it` : ''}: ${time(seconds)} a call, ${percent(shareOf(box))} of the time`;
      const inner = [
        s('title', {}, tells),
        s('rect', {x: x(cell) - wide / 2, y: y(cell.layer), width: wide, height: tall, rx: 6, style: `fill:color-mix(in srgb, var(--heat) ${level}%, var(--card))`}),
        text(x(cell), y(cell.layer) + 16, clip(what, 21), {'text-anchor': 'middle', class: 'ink'}),
        text(x(cell), y(cell.layer) + 31, `${time(seconds)} · ${percent(shareOf(box))}`, {'text-anchor': 'middle', class: 'ink'})];
      if (!task) {
        parts.push(s('g', {class: 'box'}, inner));
        continue;
      }
      const open = () => {
        const search = document.querySelector('#tasks input[type=search]');
        if (search && search.value) {
          search.value = '';
          search.dispatchEvent(new Event('input'));
        }
        document.querySelector(`#${CSS.escape(rowOf(task))} button[aria-expanded=false]`)?.click();
      };
      parts.push(s('a', {class: 'box', href: '#' + rowOf(task), 'aria-label': tells, on: {click: open}}, inner));
    }
    const high = top + layers.length * step;
    const label = `The model as ${boxes.length} boxes in ${layers.length} layers`;
    const full = width + 2 * side + 20;
    return section('graph', 'The model', 'Graph', [
      h('p', {class: 'note'}, 'Each box is a call of a kernel, from the inputs at the top to the outputs; the stronger its colour, the more of the ' +
        'model’s time it takes. What comes several times over is shown once. Press a box for its task.'),
      h('div', {class: 'scroll map', role: 'region', 'aria-label': label, tabindex: '0'},
        s('svg', {viewBox: `0 0 ${full} ${high}`, width: full, height: high, role: 'group', 'aria-label': label}, parts)),
      h('ul', {class: 'legend'}, [h('li', {}, [h('i', {class: 'heat'}), `0 % to ${percent(most)} of the time of all calls`])])]);
  };

  // Operations a second over operations a byte, both on logarithmic axes.
  const roofline = () => {
    if (!limits) return section('limits', 'Beside the machine’s limits', 'Limits', [
      h('p', {class: 'note'}, 'The peaks of the machine that ran this are not known: make the report there, or tune with --report.')]);
    const points = run.tasks.filter(t => t.flops > 0 && t.best_s > 0 && t.bytes > 0).map(t => [t.flops / t.bytes, t.flops / t.best_s, t]);
    const known = new Map(other ? other.tasks.map(task => [task.hash, task]) : []);
    const before = ([, , t]) => known.get(t.hash)?.best_s > 0 ? t.flops / known.get(t.hash).best_s : 0;
    const width = 1000, height = 400, left = 70, right = 20, top = 32, bottom = 46;
    const roofs = limits.copies.map(c => [c.level, c.bytes_per_second]);
    const xs = points.map(p => p[0]).concat(limits.flops / Math.max(...roofs.map(r => r[1])), limits.flops / Math.min(...roofs.map(r => r[1])));
    const ys = points.flatMap(p => [p[1], before(p)]).filter(v => v > 0).concat(limits.flops);
    const floor10 = v => Math.floor(Math.log10(v)), ceil10 = v => Math.ceil(Math.log10(v) + 0.05);
    const x0 = floor10(Math.min(...xs)), x1 = Math.max(ceil10(Math.max(...xs)), x0 + 1), y0 = floor10(Math.min(...ys)), y1 = Math.max(ceil10(Math.max(...ys)), y0 + 1);
    const x = v => left + (width - left - right) * (Math.log10(v) - x0) / (x1 - x0);
    const y = v => height - bottom - (height - top - bottom) * (Math.log10(v) - y0) / (y1 - y0);
    const parts = [];
    for (let e = y0; e <= y1; ++e) {
      parts.push(s('line', {class: 'grid', x1: left, x2: width - right, y1: y(10 ** e), y2: y(10 ** e)}));
      parts.push(text(left - 8, y(10 ** e) + 4, (10 ** (e - 9)).toLocaleString('en', {maximumSignificantDigits: 2}) , {'text-anchor': 'end'}));
    }
    for (let e = x0; e <= x1; ++e) {
      parts.push(s('line', {class: 'grid', y1: top, y2: height - bottom, x1: x(10 ** e), x2: x(10 ** e)}));
      parts.push(text(x(10 ** e), height - bottom + 18, (10 ** e).toLocaleString('en', {maximumSignificantDigits: 2}), {'text-anchor': 'middle'}));
    }
    parts.push(text((left + width - right) / 2, height - 6, 'floating point operations for each byte touched', {'text-anchor': 'middle'}));
    parts.push(text(left - 8, 13, 'Gflop/s', {'text-anchor': 'end'}));
    roofs.forEach(([level, rate], i) => {
      const begin = Math.max(10 ** x0, 10 ** y0 / rate), knee = limits.flops / rate;
      if (begin < knee) parts.push(s('line', {x1: x(begin), y1: y(begin * rate), x2: x(knee), y2: y(limits.flops), stroke: 'var(--soft)', 'stroke-width': 1.4}));
      const at = Math.max(begin * 1.15, knee / 12);
      if (at < knee) parts.push(text(x(at) + 4, y(at * rate) - 5, level, {class: 'ink'}));
    });
    const knee = Math.min(...roofs.map(r => limits.flops / r[1]));
    parts.push(s('line', {x1: x(Math.max(knee, 10 ** x0)), x2: width - right, y1: y(limits.flops), y2: y(limits.flops), stroke: 'var(--soft)', 'stroke-width': 1.4}));
    parts.push(text(width - right - 4, y(limits.flops) - 6, `fp32 ${(limits.flops / 1e9).toFixed(0)} Gflop/s`, {'text-anchor': 'end', class: 'ink'}));
    for (const point of points) {
      const [a, b, task] = point, was = before(point);
      if (was > 0) {
        parts.push(s('line', {x1: x(a).toFixed(1), x2: x(a).toFixed(1), y1: y(was).toFixed(1), y2: y(b).toFixed(1), stroke: 'var(--second)', 'stroke-width': 1}));
        parts.push(s('rect', {class: 'before', x: (x(a) - 3).toFixed(1), y: (y(was) - 3).toFixed(1), width: 6, height: 6, fill: 'var(--second)'},
          s('title', {}, `${task.label}, ${data.names[1]}: ${(was / 1e9).toFixed(1)} Gflop/s`)));
      }
      parts.push(s('circle', {cx: x(a).toFixed(1), cy: y(b).toFixed(1), r: (3 + 12 * Math.sqrt(share(task))).toFixed(1), fill: 'var(--accent)', 'fill-opacity': 0.45, stroke: 'var(--accent)'},
        s('title', {}, `${task.label}: ${(b / 1e9).toFixed(1)} Gflop/s, ${percent(task.limit_s / task.best_s, 0)} of its limit, ${percent(share(task))} of the time`)));
    }
    return section('limits', 'Beside the machine’s limits', 'Limits', [
      h('p', {class: 'note'}, `Each circle is a task with multiply-adds, as large as its share of the time; the lines are what ${limits.threads} thread${limits.threads === 1 ? '' : 's'} ` +
        'of this machine reached in short measurements. The limit counts the multiply-adds of contractions, and every tensor moved once; “of limit” in the table above is the same for all tasks.'),
      frame(`Roofline with ${points.length} tasks`, width, height, parts),
      ...(other ? [h('ul', {class: 'legend'}, [h('li', {}, [h('i', {style: 'background:var(--accent)'}), data.names[0]]),
        h('li', {}, [h('i', {style: 'background:var(--second)'}), data.names[1]])])] : [])]);
  };

  const failures = () => {
    if (run.failures.length === 0)
      return section('failures', 'Failures', 'Failures', [h('p', {class: 'note'}, `None of ${count(run.trials)} candidates failed.`)]);
    const most = Math.max(...run.failures.map(f => f.count));
    const columns = [
      {name: 'Kind', left: true, key: f => f.code, cell: f => [`${f.code} ${f.meaning}`, h('small', {}, f.signal ? `signal ${f.signal}` : '')]},
      {name: 'Candidates', key: f => f.count, cell: f => [count(f.count), h('span', {class: 'meter', 'aria-hidden': 'true'}, h('i', {style: `width:${100 * f.count / most}%;background:var(--bad)`}))]},
      {name: 'Of all', key: f => f.count, cell: f => percent(f.count / Math.max(1, run.trials))},
      {name: 'Tasks', key: f => f.tasks, cell: f => count(f.tasks)},
    ];
    return section('failures', 'Failures', 'Failures', [
      h('p', {class: 'note'}, `${count(run.failed)} of ${count(run.trials)} candidates. Press a kind for the first of them.`),
      ...table('Failures', columns, run.failures, {sorted: 1, detail: f => [
        h('p', {class: 'note'}, `First in ${f.task}`), code('Message', f.message || '(none)'), code('Schedule', f.trace)]})]);
  };

  const ofLimit = task => limits && task.best_s > 0 ? task.limit_s / task.best_s : 0;
  const comparison = () => {
    const {compared} = data, known = new Map(other.tasks.map(task => [task.hash, task])), ours = new Map(run.tasks.map(task => [task.hash, task]));
    const rows = compared.tasks.map(row => ({...row, a: ours.get(row.hash), b: known.get(row.hash)}));
    const gain = r => r.a.best_s > 0 && r.b.best_s > 0 ? r.b.best_s / r.a.best_s : 0;
    const signed = v => h('span', {class: v > 0 ? 'good' : v < 0 ? 'bad' : null}, v === 0 ? '0' : (v > 0 ? '−' : '+') + time(Math.abs(v)));
    const columns = [
      {name: tuned ? 'Task' : 'Kernel', left: true, key: r => r.a.label, cell: r => tuned || r.a.calls[0]?.nodes.length ? name(r.a) : [r.a.label]},
      {name: data.names[1], key: r => r.b.best_s, cell: r => time(r.b.best_s), title: 'one call, before'},
      {name: data.names[0], key: r => r.a.best_s, cell: r => time(r.a.best_s), title: 'one call, after'},
      {name: 'Faster', key: gain, cell: r => times(gain(r))},
      {name: 'In the model', key: r => r.saved_s, cell: r => signed(r.saved_s), title: 'change of the latency'},
      {name: 'Of the gain', key: r => r.share, cell: r => r.share ? percent(r.share) : '–', title: 'share of what all tasks save together'},
    ];
    if (rows.some(r => ofLimit(r.a) > 0 && ofLimit(r.b) > 0)) columns.push({name: 'Of limit', key: r => ofLimit(r.a) - ofLimit(r.b),
      cell: r => ofLimit(r.a) > 0 && ofLimit(r.b) > 0 ? `${percent(ofLimit(r.b), 0)} → ${percent(ofLimit(r.a), 0)}` : '–', title: 'the least time that the machine needs, over the time'});
    if (tuned) columns.push({name: 'Trials', key: r => r.a.trials - r.b.trials, cell: r => `${count(r.b.trials)} → ${count(r.a.trials)}`});
    const notes = [`${data.names[1]}: ${time(compared.before_s)}, ${data.names[0]}: ${time(compared.after_s)}, ${times(compared.before_s / compared.after_s)} as fast.`];
    if (compared.only_after || compared.only_before)
      notes.push(` ${count(compared.only_after)} ${tuned ? 'tasks' : 'kernels'} are in ${data.names[0]} alone, ${count(compared.only_before)} in ${data.names[1]} alone.`);
    const options = {text: r => searchable(r.a)};
    if (tuned) options.detail = r => [h('div', {class: 'pair'}, [
      code(`Schedule of ${data.names[1]}`, r.b.trace || 'nothing was measured'), code(`Schedule of ${data.names[0]}`, r.a.trace || 'nothing was measured')])];
    return section('compared', tuned ? 'Two runs compared' : 'Two compiled models compared', 'Compared', [h('p', {class: 'note'}, notes.join('')),
      ...table('Comparison', columns, rows, options)]);
  };

  // --- the page ---------------------------------------------------------------------------------------------------

  const tile = (value, label, kind) => h('div', {class: 'tile'}, [h('b', {class: kind}, value), h('span', {}, label)]);
  const measured = run.tuned_ms > 0;
  const before = data.is_compiled ? other.tuned_ms / 1e3 : measured ? run.untuned_ms / 1e3 : run.default_s, after = measured ? run.tuned_ms / 1e3 : run.estimated_s;
  const began = run.created_ms ? new Date(run.created_ms).toLocaleString() : '';
  document.getElementById('head').append(
    h('p', {class: 'eyebrow'}, tuned ? 'Fettle tuning report' : 'Compiled by Fettle'), h('h1', {}, run.model),
    h('p', {class: 'soft'}, [`${run.machine} · model on ${run.threads} thread${run.threads === 1 ? '' : 's'}`, began ? ` · begun ${began}` : '', run.stopped ? ' · interrupted' : tuned && run.created_ms && !run.seconds ? ' · did not end' : '']),
    h('div', {class: 'tiles'}, [
      tile(time(after), !tuned ? `latency of ${data.names[0]}` : measured ? 'latency, tuned' : 'latency, estimated', null),
      tile(time(before), !tuned ? `latency of ${data.names[1]}` : measured ? 'latency, untuned' : 'untuned, estimated', null),
      tile(times(before / after), run.kept_untuned ? 'the defaults are kept' : 'as fast', run.kept_untuned ? 'bad' : before / after > 1.005 ? 'good' : null),
      tile(count(run.tasks.length), tuned ? 'tasks' : 'kernels', null),
      ...(tuned ? [
      tile(count(run.trials), run.failed ? `candidates, ${count(run.failed)} failed` : 'candidates, none failed', null),
      tile(span(run.seconds || run.points.at(-1)?.[0] || 0), 'spent', null)] : [])]));
  const main = document.getElementById('main');
  if (tuned) main.append(curve());
  if (other) main.append(comparison());
  main.append(shares());
  if (run.calls?.length) main.append(graph());
  main.append(tasks(), ...(tuned ? [roofline(), failures()] : []), h('footer', {}, `Made by ${data.made_by}. This file is complete: it opens without a network.`));
  document.getElementById('nav').append(h('div', {}, sections.map(([id, title]) => h('a', {href: '#' + id}, title))));
  document.documentElement.dataset.ready = 'yes';
})();
