'use strict';
// Draws the figures of a page in the reader's scheme (light or dark; light on paper) at the width there is, and sorts and filters
// the table of measurements.
(function () {
  var dark = window.matchMedia('(prefers-color-scheme: dark)');
  var figures = [];

  function scheme_now() { return dark.matches ? 'dark' : 'light'; }
  function draw(figure, scheme) {
    if (figure.chart) figure.chart.dispose();
    var font = getComputedStyle(document.body).fontFamily;
    figure.chart = echarts.init(figure.plot, headroom.theme(headroom.schemes[scheme], font), {renderer: 'svg'});
    figure.chart.setOption(headroom.resolve(figure.option, scheme));
    figure.element.dataset.drawn = scheme;
  }
  function draw_all(scheme) { figures.forEach(function (figure) { draw(figure, scheme); }); }
  // Those in sight first; the others when there is nothing else to do, so that a long page opens at once.
  function draw_one_more() {
    var next = null, i, box;
    for (i = 0; i < figures.length; ++i) {
      if (figures[i].chart) continue;
      box = figures[i].element.getBoundingClientRect();
      if (box.bottom > 0 && box.top < window.innerHeight) { next = figures[i]; break; }
      next = next || figures[i];
    }
    if (!next) { document.body.dataset.drawn = 'all'; return; }
    draw(next, scheme_now());
    setTimeout(draw_one_more, 0);
  }

  // What tooltips say, as tables: for keyboards, readers of screens and paper.
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
    var figure = {
      element: element, plot: element.querySelector('.plot'), chart: null,
      option: JSON.parse(element.querySelector('script[type="application/json"]').textContent)
    };
    figures.push(figure);
    var details = element.querySelector('details.values');
    details.addEventListener('toggle', function () {
      if (details.open && !details.querySelector('.value-list')) details.appendChild(list_values(figure.option));
    });
  });
  setTimeout(draw_one_more, 0);
  dark.addEventListener('change', function () { draw_all(scheme_now()); });
  window.addEventListener('resize', function () { figures.forEach(function (figure) { if (figure.chart) figure.chart.resize(); }); });
  window.addEventListener('beforeprint', function () { draw_all('light'); });
  window.addEventListener('afterprint', function () { draw_all(scheme_now()); });

  var table = document.getElementById('table');
  if (!table) return;
  var body = table.tBodies[0], rows = Array.from(body.rows);
  var series = JSON.parse(document.getElementById('trials').textContent);
  var filter = document.getElementById('filter'), shown = document.getElementById('shown');
  rows.forEach(function (row) { row.text = row.textContent.toLowerCase(); });

  function show_rows() {
    var words = filter.value.toLowerCase().split(/\s+/), count = 0;
    rows.forEach(function (row) {
      row.hidden = !words.every(function (word) { return row.text.indexOf(word) >= 0; });
      if (row.trials) row.trials.hidden = row.hidden;
      count += row.hidden ? 0 : 1;
    });
    shown.textContent = count + ' of ' + rows.length;
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

  function make_trials(index) {
    var row = document.createElement('tr'), cell = row.insertCell();
    row.className = 'raw';
    cell.colSpan = table.tHead.rows[0].cells.length;
    series[index].forEach(function (one) {
      var text = document.createElement('p');
      var strong = document.createElement('strong');
      strong.textContent = one.what + ', ms, in the order they ran';
      text.appendChild(strong);
      var note = ' (' + one.time.length + ' after ' + one.warmup + ' for warm-up';
      if (one.process) note += '; from ' + new Set(one.process).size + ' processes';
      if (one.unsettled) note += '; times had not settled';
      text.appendChild(document.createTextNode(note + '): '));
      text.appendChild(document.createTextNode(one.time.join('  ')));
      cell.appendChild(text);
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
})();
