'use strict';
// Draws the figures of a page in the reader's colour scheme (light or dark; light on paper) at the available width. On a
// dashboard it shows one scenario and one of its charts, and sorts and filters the table of measurements.
(function () {
  var dark = window.matchMedia('(prefers-color-scheme: dark)');
  var figures = {}, shown = [];  // by id; the visible ones

  function scheme_now() { return dark.matches ? 'dark' : 'light'; }
  function make_chart(plot, option, scheme) {
    var font = getComputedStyle(document.body).fontFamily;
    var chart = echarts.init(plot, headroom.theme(headroom.schemes[scheme], font), {renderer: 'svg'});
    chart.setOption(headroom.resolve(option, scheme));
    return chart;
  }
  function draw(figure, scheme) {
    if (figure.chart) figure.chart.dispose();
    figure.chart = make_chart(figure.plot, option_of(figure), scheme);
    figure.element.dataset.drawn = scheme;
  }
  function option_of(figure) {  // parsed at first use: a page may hold hundreds
    if (!figure.option) figure.option = JSON.parse(figure.element.querySelector('script[type="application/json"]').textContent);
    return figure.option;
  }
  // Shows only these figures, each drawn in `scheme`.
  function show(ids, scheme) {
    shown.forEach(function (figure) {
      figure.element.classList.remove('shown');
      if (figure.chart) figure.chart.dispose();
      figure.chart = null;
    });
    shown = ids.map(function (id) { return figures[id]; });
    shown.forEach(function (figure) { figure.element.classList.add('shown'); });
    shown.forEach(function (figure) { draw(figure, scheme); });
    document.body.dataset.drawn = 'all';
  }

  // The texts of tooltips as tables: for keyboards, screen readers and paper.
  function list_values(option) {
    var box = document.createElement('div');
    box.className = 'value-list';
    option.series.forEach(function (series) {
      (series.data || []).concat(series.links || []).forEach(function (item) {
        if (!item || !item.tip) return;
        var table = document.createElement('table');
        table.createCaption().textContent = item.tip.title;
        item.tip.rows.forEach(function (pair) {
          var row = table.insertRow(), head = document.createElement('th');
          head.scope = 'row';
          head.textContent = pair[0];
          row.appendChild(head);
          row.insertCell().textContent = pair[1];
        });
        box.appendChild(table);
      });
    });
    return box;
  }

  document.querySelectorAll('figure.chart').forEach(function (element) {
    var figure = {element: element, plot: element.querySelector('.plot'), chart: null, option: null};
    figures[element.id] = figure;
    var details = element.querySelector('details.values');
    details.addEventListener('toggle', function () {
      if (details.open && !details.querySelector('.value-list')) details.appendChild(list_values(option_of(figure)));
    });
  });
  function draw_all(scheme) { shown.forEach(function (figure) { draw(figure, scheme); }); }
  dark.addEventListener('change', function () { draw_all(scheme_now()); });
  // Redraws from scratch, because the chart library does not undo its changes for a narrow screen.
  window.addEventListener('resize', function () { draw_all(scheme_now()); });

  var selector = document.getElementById('scenario');
  if (!selector) {  // a page of one chart
    show(Object.keys(figures), scheme_now());
    window.addEventListener('beforeprint', function () { draw_all('light'); });
    window.addEventListener('afterprint', function () { draw_all(scheme_now()); });
    return;
  }

  // ---- one scenario, one chart

  var view = 0, count = selector.options.length, chart = '';
  function kinds() { return Array.from(document.querySelectorAll('ul.kinds[data-view="' + view + '"] li')); }
  function files_in(kind) {
    var button = kind.querySelector('button'), options = Array.from(kind.querySelectorAll('option'));
    return options.length ? options.map(function (option) { return option.value; }) : button ? [button.dataset.chart] : [];
  }
  function files() { return [].concat.apply([], kinds().map(files_in)); }
  function kind_of(file) { return file.replace(/-.*/, ''); }  // names begin with the kind, and kinds have no hyphen
  function show_chart(file) {
    chart = file;
    kinds().forEach(function (kind) {
      var button = kind.querySelector('button'), select = kind.querySelector('select');
      var is_shown = files_in(kind).indexOf(file) >= 0;
      if (button) button.setAttribute('aria-pressed', is_shown ? 'true' : 'false');
      if (select) select.hidden = !is_shown;
      if (select && is_shown) select.value = file;
    });
    show(file ? [file] : [], scheme_now());
  }
  function show_view(number) {
    view = Math.min(Math.max(number, 1), count);
    selector.value = String(view);
    document.querySelectorAll('[data-view]').forEach(function (element) { element.hidden = Number(element.dataset.view) !== view; });
    show_rows();
    var same = files().filter(function (file) { return kind_of(file) === kind_of(chart); });
    show_chart(same[0] || files()[0] || '');
    document.body.dataset.scenario = view;
    window.scrollTo(0, 0);
  }
  function go(number) { location.hash = 'scenario-' + Math.min(Math.max(number, 1), count); }
  function show_hash() { show_view(Number((/^#scenario-(\d+)$/.exec(location.hash) || [0, 1])[1])); }
  window.addEventListener('hashchange', show_hash);
  selector.addEventListener('change', function () { go(Number(selector.value)); });
  document.getElementById('previous').addEventListener('click', function () { go(view - 1); });
  document.getElementById('next').addEventListener('click', function () { go(view + 1); });
  document.getElementById('charts').addEventListener('click', function (event) {
    var button = event.target.closest('ul.kinds button');
    if (button) show_chart(button.dataset.chart);
  });
  document.getElementById('charts').addEventListener('change', function (event) {
    if (event.target.closest('ul.kinds')) show_chart(event.target.value);
  });
  var typed = '';
  document.addEventListener('keydown', function (event) {
    if (event.ctrlKey || event.altKey || event.metaKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    var by = event.key === 'ArrowLeft' ? -1 : event.key === 'ArrowRight' ? 1 : 0;
    if (/^\d$/.test(event.key)) {  // digits of a scenario's number, if it exists
      typed = Number(typed + event.key) <= count ? typed + event.key : event.key;
      if (Number(typed) >= 1 && Number(typed) <= count) go(Number(typed));
      return;
    }
    if (event.key !== 'Shift') typed = '';
    if (!by) return;
    event.preventDefault();
    if (!event.shiftKey) return go(view + by);
    var all = files();
    if (all.length) show_chart(all[(all.indexOf(chart) + by + all.length) % all.length]);
  });
  // In print a scenario shows all its charts.
  window.addEventListener('beforeprint', function () { show(files(), 'light'); });
  window.addEventListener('afterprint', function () { show_chart(chart); });

  // ---- its measurements

  var table = document.getElementById('table');
  var body = table.tBodies[0], rows = Array.from(body.rows);
  var trials = null;  // parsed at first use
  var filter = document.getElementById('filter'), counter = document.getElementById('shown');

  function show_rows() {
    var words = filter.value.toLowerCase().split(/\s+/), all = 0, seen = 0;
    rows.forEach(function (row) {
      var is_of_view = Number(row.dataset.view) === view;
      if (is_of_view) {
        row.text = row.text || row.textContent.toLowerCase();
        ++all;
      }
      row.hidden = !is_of_view || !words.every(function (word) { return row.text.indexOf(word) >= 0; });
      if (row.trials) row.trials.hidden = row.hidden;
      seen += row.hidden ? 0 : 1;
    });
    counter.textContent = seen + ' of ' + all;
  }
  filter.addEventListener('input', show_rows);

  function key_of(row, column) {
    var cell = row.cells[column];
    return cell.dataset.key !== undefined ? Number(cell.dataset.key) : cell.textContent.toLowerCase();
  }
  function compare(a, b) {  // numbers before texts, nothing last
    if (typeof a !== typeof b) return typeof a === 'number' ? -1 : 1;
    if (typeof a === 'string' && (a === '' || b === '')) return a === b ? 0 : a === '' ? 1 : -1;
    return a < b ? -1 : a > b ? 1 : 0;
  }
  Array.from(table.tHead.rows[0].cells).forEach(function (head, column) {
    head.querySelector('button').addEventListener('click', function () {
      var down = head.getAttribute('aria-sort') === 'ascending';
      Array.from(table.tHead.rows[0].cells).forEach(function (other) { other.removeAttribute('aria-sort'); });
      head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      rows.sort(function (a, b) { var order = compare(key_of(a, column), key_of(b, column)); return down ? -order : order; });
      rows.forEach(function (row) {
        body.appendChild(row);
        if (row.trials) body.appendChild(row.trials);
      });
    });
  });

  // The trials of a series in the order they ran, drawn over those of the previous measurement.
  function plot_trials(cell, what, time, before) {
    var plot = document.createElement('div'), option = JSON.parse(document.getElementById('trial-plot').textContent);
    function points(list) { return list.map(function (ms, i) { return [i + 1, ms]; }); }
    plot.className = 'trial-plot';
    cell.appendChild(plot);
    option.yAxis.name = 'time of one ' + (what === 'forward' ? 'forward pass' : what);
    option.series[0].data = points(before);
    option.series[1].data = points(time);
    make_chart(plot, option, scheme_now());
  }
  function make_trials(index) {
    trials = trials || JSON.parse(document.getElementById('trials').textContent);
    var row = document.createElement('tr'), cell = row.insertCell(), before = trials[trials[index].before];
    row.className = 'raw';
    cell.colSpan = table.tHead.rows[0].cells.length;
    trials[index].series.forEach(function (one) {
      var text = document.createElement('details'), summary = document.createElement('summary');
      var note = one.what + ', ms, in the order they ran (' + one.time.length + ' after ' + one.warmup + ' for warm-up';
      if (one.process) note += '; from ' + new Set(one.process).size + ' processes';
      if (one.unsettled) note += '; times had not settled';
      summary.textContent = note + ')';
      text.appendChild(summary);
      text.appendChild(document.createTextNode(one.time.join('  ')));
      cell.appendChild(text);
      text.addEventListener('toggle', function () {
        if (!text.open || text.querySelector('.trial-plot')) return;
        var same = before ? before.series.filter(function (other) { return other.what === one.what; }) : [];
        plot_trials(text, one.what, one.time, same.length ? same[0].time : []);
      });
    });
    return row;
  }
  body.addEventListener('click', function (event) {
    var button = event.target.closest('button.trials');
    if (!button) return;
    var row = button.closest('tr');
    if (row.trials) {
      row.trials.remove();
      row.trials = null;
    } else {
      row.trials = make_trials(Number(button.dataset.index));
      row.after(row.trials);
    }
    button.setAttribute('aria-expanded', row.trials ? 'true' : 'false');
  });
  show_hash();
})();
