// Colours by role ({"$color": "blue"}) and functions ({"$fn": "tooltip"}) that options refer to. Written in ES5, because both
// a browser and the program's own interpreter run it. headroom.resolve(option, scheme) substitutes them.
var headroom = (function () {
  // Colours of roles, distinguishable with red-green colour blindness (after Okabe and Ito), with a contrast of at least
  // 3:1 on the page's background. Text on heat switches colour at the middle, where black and white both have 4.5:1.
  var schemes = {
    light: {
      text: '#1b2430', faint: '#566273', line: '#d5dbe3', axis: '#7b8796', background: '#ffffff', panel: '#ffffff',
      base: '#6a7686', blue: '#0069a8', orange: '#c24a00', green: '#007a5a', purple: '#9a4a86', gold: '#8a6500', sky: '#2f86b5',
      blue_soft: '#9cc5e3', orange_soft: '#efb48e', track: '#e8ecf1', whisker: '#1b2430', on_dark: '#ffffff',
      heat: ['#f4f8fb', '#a6cde5', '#357ab0', '#1f5f94', '#08457a'], on_heat: '#000000', on_strong_heat: '#ffffff'
    },
    dark: {
      text: '#e8edf3', faint: '#a9b4c2', line: '#333d4a', axis: '#8592a2', background: '#12171e', panel: '#1a212b',
      base: '#98a4b3', blue: '#56b4e9', orange: '#f0945a', green: '#35c79b', purple: '#df97c6', gold: '#e3bb3f', sky: '#8fd0f5',
      blue_soft: '#2d5f80', orange_soft: '#7d4826', track: '#28313d', whisker: '#f4f7fa', on_dark: '#ffffff',
      heat: ['#1d2935', '#25506f', '#307bb0', '#62b8ea', '#c5e6fa'], on_heat: '#ffffff', on_strong_heat: '#000000'
    }
  };

  // A number of an axis. It is round, and has all its digits, so that neighbours differ: 12.25 and 12.3.
  function axis_number(value) {
    var rounded = Number(value.toPrecision(6));
    return rounded !== 0 && Math.abs(rounded) < 1e-3 ? rounded.toExponential() : String(rounded);  // 5.9e-6
  }
  function in_unit(value, units) {
    var size = Math.abs(value), chosen = 0, i;
    for (i = 1; i < units.length; ++i) if (size >= units[i][0] * 0.9995) chosen = i;
    while (units[chosen][2] && axis_number(value / units[chosen][0]).length > 4) --chosen;  // 70 s, not 1.16667 min
    return axis_number(value / units[chosen][0]) + (units[chosen][1] ? ' ' + units[chosen][1] : '');
  }
  // Size, name, and whether the unit is no power of ten.
  var time_units = [[1e-6, 'ns'], [1e-3, '\u00b5s'], [1, 'ms'], [1e3, 's'], [6e4, 'min', true], [36e5, 'h', true]];
  var byte_units = [[1, 'B'], [1024, 'KiB'], [1048576, 'MiB'], [1073741824, 'GiB'], [1099511627776, 'TiB']];
  var si_units = [[1, ''], [1e3, 'k'], [1e6, 'M'], [1e9, 'G'], [1e12, 'T'], [1e15, 'P']];

  function escape_html(text) {
    return String(text).replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;').replace(/"/g, '&quot;');
  }

  // A name of switches may break after a plus, an equals sign and a colon, one of modules after a dot: a zero-width
  // character follows it.
  function breakable(name) { return name.replace(/[+=:](?=[^ ])|\.(?=[^0-9])/g, '$&\ufeff'); }
  function label_of(params) { return params.data && params.data.text !== undefined ? params.data.text : ''; }

  function functions_of(colors) {
    function axis(units) {
      return function (value) { return value === 0 ? '0' : in_unit(value, units); };
    }
    // A line from `low` to `high` with caps, across the axis `along` ('x' or 'y').
    function whisker(api, along) {
      var position = api.value(0), horizontal = along === 'x', size = 4;
      var low = horizontal ? api.coord([api.value(1), position]) : api.coord([position, api.value(1)]);
      var high = horizontal ? api.coord([api.value(2), position]) : api.coord([position, api.value(2)]);
      var style = {stroke: api.visual('color'), lineWidth: 1.5, fill: null};
      function line(x1, y1, x2, y2) { return {type: 'line', shape: {x1: x1, y1: y1, x2: x2, y2: y2}, style: style, silent: true}; }
      var children = horizontal
        ? [line(low[0], low[1], high[0], high[1]), line(low[0], low[1] - size, low[0], low[1] + size),
           line(high[0], high[1] - size, high[0], high[1] + size)]
        : [line(low[0], low[1], high[0], high[1]), line(low[0] - size, low[1], low[0] + size, low[1]),
           line(high[0] - size, high[1], high[0] + size, high[1])];
      return {type: 'group', silent: true, children: children};
    }
    return {
      tooltip: function (params) {
        var tip = params.data && params.data.tip, html, i;
        if (!tip) return '';
        html = '<div class="tip"><strong>' + escape_html(tip.title) + '</strong><table>';
        for (i = 0; i < tip.rows.length; ++i)
          html += '<tr><th scope="row">' + escape_html(tip.rows[i][0]) + '</th><td>' + escape_html(tip.rows[i][1]) + '</td></tr>';
        return html + '</table></div>';
      },
      // A text's shorter form if it has one, in two lines if it has two parts separated by two blanks.
      label_narrow: function (params) {
        var data = params.data || {}, text = data.narrow !== undefined ? data.narrow : data.text;
        return text !== undefined ? text.replace('  ', '\n') : '';
      },
      label: label_of,
      label_breakable: function (params) { return breakable(label_of(params)); },
      axis_name: breakable,
      // Axis values with names: {"$fn": "axis_named", "$with": {"64": "128x128"}}.
      axis_named: function (names) {
        return function (value) { return Object.prototype.hasOwnProperty.call(names, String(value)) ? names[String(value)] : ''; };
      },
      axis_ms: axis(time_units),
      axis_bytes: axis(byte_units),
      axis_si: axis(si_units),
      axis_flops: function (value) { return value === 0 ? '0' : in_unit(value, si_units) + 'FLOP/s'; },
      axis_byte_rate: function (value) { return value === 0 ? '0' : in_unit(value, si_units) + 'B/s'; },
      axis_percent: function (value) { return axis_number(value * 100) + '%'; },
      axis_points: function (value) { return axis_number(value * 100); },  // percentage points
      axis_factor: function (value) { return axis_number(value) + 'x'; },
      axis_plain: function (value) { return axis_number(value); },
      // [category, low, high], for a horizontal bar, and for a vertical bar or a point.
      interval_x: function (params, api) { return whisker(api, 'x'); },
      interval_y: function (params, api) { return whisker(api, 'y'); },
      // The same, drawn as a bar inside a bar: the floor of a stage.
      inner_bar: function (params, api) {
        var low = api.coord([api.value(1), api.value(0)]), high = api.coord([api.value(2), api.value(0)]);
        return {type: 'rect', silent: true, shape: {x: low[0], y: low[1] - 3, width: high[0] - low[0], height: 6},
                style: {fill: colors.panel, opacity: 0.75}};
      },
      // [row, low, q1, median, q3, high, number of points, then offset and density alternating]: an outline around the middle
      // of the row, with a height proportional to the density (1 is the densest), with quartiles and median inside.
      violin: function (params, api) {
        var row = api.value(0), count = api.value(6), half = api.size([0, 1])[1] * 0.42, upper = [], lower = [], i;
        for (i = 0; i < count; ++i) {
          var at = api.coord([api.value(7 + 2 * i), row]), height = api.value(8 + 2 * i) * half;
          upper.push([at[0], at[1] - height]);
          lower.unshift([at[0], at[1] + height]);
        }
        function bar(from, to, width, color) {
          var a = api.coord([from, row]), b = api.coord([to, row]);
          return {type: 'line', shape: {x1: a[0], y1: a[1], x2: b[0], y2: b[1]}, style: {stroke: color, lineWidth: width}};
        }
        var middle = api.coord([api.value(3), row]);
        return {
          type: 'group',
          children: [
            {type: 'polygon', shape: {points: upper.concat(lower)},
             style: {fill: api.visual('color'), opacity: 0.55, stroke: api.visual('color'), lineWidth: 1}},
            bar(api.value(1), api.value(5), 1, colors.whisker),
            bar(api.value(2), api.value(4), 5, colors.whisker),
            {type: 'circle', shape: {cx: middle[0], cy: middle[1], r: 3.5},
             style: {fill: colors.background, stroke: colors.whisker, lineWidth: 1.5}}
          ]
        };
      }
    };
  }

  function resolve(value, colors, functions) {
    var i, key, made;
    if (value === null || typeof value !== 'object') return value;
    if (Array.isArray(value)) {
      made = [];
      for (i = 0; i < value.length; ++i) made.push(resolve(value[i], colors, functions));
      return made;
    }
    if (value.$fn !== undefined) {
      if (!functions[value.$fn]) throw new Error('no function ' + value.$fn);
      return value.$with === undefined ? functions[value.$fn] : functions[value.$fn](value.$with);
    }
    if (value.$color !== undefined) {
      if (!colors[value.$color]) throw new Error('no colour ' + value.$color);
      return colors[value.$color];
    }
    made = {};
    for (key in value) if (Object.prototype.hasOwnProperty.call(value, key)) made[key] = resolve(value[key], colors, functions);
    return made;
  }

  function theme(colors, font) {
    function axis(lines) {
      return {
        axisLine: {show: !lines, lineStyle: {color: colors.axis}}, axisTick: {show: false},
        axisLabel: {color: colors.text, fontSize: 12}, nameTextStyle: {color: colors.faint, fontSize: 12},
        splitLine: {show: lines, lineStyle: {color: [colors.line]}}, splitArea: {show: false}
      };
    }
    return {
      color: [colors.blue, colors.orange, colors.green, colors.purple, colors.gold, colors.base, colors.sky],
      textStyle: {fontFamily: font, color: colors.text}, backgroundColor: 'transparent',
      legend: {textStyle: {color: colors.text}, inactiveColor: colors.faint},
      categoryAxis: axis(false), valueAxis: axis(true), logAxis: axis(true),
      tooltip: {backgroundColor: colors.panel, borderColor: colors.axis, textStyle: {color: colors.text, fontSize: 13}}
    };
  }

  return {
    schemes: schemes,
    theme: theme,
    resolve: function (option, scheme) { return resolve(option, schemes[scheme], functions_of(schemes[scheme])); },
    // JSON of {option, width, height, font} to SVG, without a browser.
    to_svg: function (json) {
      var asked = JSON.parse(json);
      var chart = echarts.init(null, theme(schemes.light, asked.font), {renderer: 'svg', ssr: true, width: asked.width, height: asked.height});
      try {
        chart.setOption(this.resolve(asked.option, 'light'));
        // Static pictures have no animation and no pointer interaction.
        return chart.getZr().painter.renderToString({cssAnimation: false, cssEmphasis: false});
      } finally {
        chart.dispose();
      }
    }
  };
})();
