// Small dense linear algebra on arrays of rows.
function matrix(rows, columns, entry) {
  return range(rows).map((i) => range(columns).map((j) => entry(i, j)));
}

function transpose(A) {
  return matrix(A[0].length, A.length, (i, j) => A[j][i]);
}

function product(A, B) {
  return A.map((row) => {
    const out = new Array(B[0].length).fill(0);
    for (let k = 0; k < row.length; k++) {
      if (row[k] !== 0) for (let j = 0; j < out.length; j++) out[j] += row[k] * B[k][j];
    }
    return out;
  });
}

function identity(n) {
  return matrix(n, n, (i, j) => Number(i === j));
}

function times(A, x) {
  return A.map((row) => {
    let sum = 0;
    for (let j = 0; j < x.length; j++) sum += row[j] * x[j];
    return sum;
  });
}

// X with A X = B, by elimination with partial pivoting.
function solve(A, B) {
  const n = A.length,
    rows = A.map((row, i) => [...row, ...B[i]]);
  for (let k = 0; k < n; k++) {
    let best = k;
    for (let i = k + 1; i < n; i++) if (Math.abs(rows[i][k]) > Math.abs(rows[best][k])) best = i;
    [rows[k], rows[best]] = [rows[best], rows[k]];
    for (let i = k + 1; i < n; i++) {
      const f = rows[i][k] / rows[k][k];
      if (f !== 0) for (let j = k; j < rows[i].length; j++) rows[i][j] -= f * rows[k][j];
    }
  }
  for (let k = n - 1; k >= 0; k--) {
    for (let j = n; j < rows[k].length; j++) {
      let sum = rows[k][j];
      for (let i = k + 1; i < n; i++) sum -= rows[k][i] * rows[i][j];
      rows[k][j] = sum / rows[k][k];
    }
  }
  return rows.map((row) => row.slice(n));
}

// Orthonormal basis [p][rank] of the span of rows; the identity if that is the entire space.
// Gram–Schmidt with pivoting, each row orthogonalised twice.
function rowBasis(rows) {
  const p = rows[0].length,
    basis = [],
    left = rows.map((row) => [...row]),
    norm = (row) => Math.hypot(...row),
    largest = Math.max(...left.map(norm));
  while (basis.length < p) {
    const norms = left.map(norm),
      size = Math.max(...norms);
    if (!(size > 1e-10 * largest)) break;
    let unit = left[norms.indexOf(size)].map((x) => x / size);
    const reduce = (row, other) => {
      const dot = row.reduce((sum, x, j) => sum + x * other[j], 0);
      return row.map((x, j) => x - dot * other[j]);
    };
    for (const other of basis) unit = reduce(unit, other);
    const length = norm(unit);
    unit = unit.map((x) => x / length);
    basis.push(unit);
    for (const [k, row] of left.entries()) left[k] = reduce(row, unit);
  }
  return basis.length === p ? identity(p) : transpose(basis);
}

// Eigenvalues [re, im] of a real matrix, the largest real part first: reduce to Hessenberg form by
// Householder reflections, then shifted QR by Givens rotations in complex arithmetic, deflating
// from the end.
function eigenvalues(A) {
  const n = A.length,
    re = A.map((row) => [...row]),
    im = matrix(n, n, () => 0),
    values = [];
  hessenberg(re);
  let high = n - 1,
    tries = 0;
  while (high >= 0) {
    let low = high;
    while (low > 0) {
      const size =
        Math.hypot(re[low][low], im[low][low]) +
        Math.hypot(re[low - 1][low - 1], im[low - 1][low - 1]);
      if (Math.hypot(re[low][low - 1], im[low][low - 1]) <= 2.3e-16 * (size || 1e-300)) {
        re[low][low - 1] = im[low][low - 1] = 0;
        break;
      }
      low--;
    }
    if (low === high || tries > 500) {
      values.push([re[high][high], im[high][high]]);
      high--;
      tries = 0;
    } else {
      qrStep(re, im, low, high, shift(re, im, high, ++tries));
    }
  }
  return values.sort((x, y) => y[0] - x[0] || x[1] - y[1]);
}

function hessenberg(H) {
  const n = H.length;
  for (let k = 0; k < n - 2; k++) {
    const v = range(n).map((i) => (i > k ? H[i][k] : 0));
    const size = Math.hypot(...v);
    if (size === 0) continue;
    v[k + 1] += v[k + 1] < 0 ? -size : size;
    const square = v.reduce((sum, x) => sum + x * x, 0);
    for (let j = 0; j < n; j++) {
      let dot = 0;
      for (let i = k + 1; i < n; i++) dot += v[i] * H[i][j];
      for (let i = k + 1; i < n; i++) H[i][j] -= ((2 * dot) / square) * v[i];
    }
    for (let i = 0; i < n; i++) {
      let dot = 0;
      for (let j = k + 1; j < n; j++) dot += v[j] * H[i][j];
      for (let j = k + 1; j < n; j++) H[i][j] -= ((2 * dot) / square) * v[j];
    }
    for (let i = k + 2; i < n; i++) H[i][k] = 0;
  }
}

function complexSqrt([x, y]) {
  const size = Math.hypot(x, y),
    re = Math.sqrt((size + Math.abs(x)) / 2);
  if (re === 0) return [0, 0];
  return x >= 0 ? [re, y / (2 * re)] : [Math.abs(y) / (2 * re), y < 0 ? -re : re];
}

// Wilkinson's shift: the eigenvalue of the last 2 by 2 block that is nearer to its last entry.
function shift(re, im, m, tries) {
  if (tries % 12 === 0)
    return [re[m][m] + Math.abs(re[m][m - 1]), im[m][m] + 0.7 * Math.abs(re[m][m - 1])];
  const [a, b, c, d] = [
    [m - 1, m - 1],
    [m - 1, m],
    [m, m - 1],
    [m, m],
  ].map(([i, j]) => [re[i][j], im[i][j]]);
  const half = [(a[0] - d[0]) / 2, (a[1] - d[1]) / 2];
  const square = [
    half[0] * half[0] - half[1] * half[1] + b[0] * c[0] - b[1] * c[1],
    2 * half[0] * half[1] + b[0] * c[1] + b[1] * c[0],
  ];
  let s = complexSqrt(square);
  if (half[0] * s[0] + half[1] * s[1] > 0) s = [-s[0], -s[1]];
  return [d[0] + half[0] + s[0], d[1] + half[1] + s[1]];
}

// One QR step with a shift on rows low … high.
function qrStep(re, im, low, high, [sr, si]) {
  const n = re.length,
    rotations = [];
  for (let k = low; k <= high; k++) {
    re[k][k] -= sr;
    im[k][k] -= si;
  }
  for (let k = low; k < high; k++) {
    const ar = re[k][k],
      ai = im[k][k],
      br = re[k + 1][k],
      bi = im[k + 1][k];
    const size = Math.hypot(ar, ai, br, bi) || 1e-300;
    const [cr, ci, zr, zi] = [ar / size, ai / size, br / size, bi / size];
    rotations.push([cr, ci, zr, zi]);
    for (let j = k; j < n; j++) {
      const [xr, xi, yr, yi] = [re[k][j], im[k][j], re[k + 1][j], im[k + 1][j]];
      re[k][j] = cr * xr + ci * xi + zr * yr + zi * yi;
      im[k][j] = cr * xi - ci * xr + zr * yi - zi * yr;
      re[k + 1][j] = -zr * xr + zi * xi + cr * yr - ci * yi;
      im[k + 1][j] = -zr * xi - zi * xr + cr * yi + ci * yr;
    }
  }
  for (let k = low; k < high; k++) {
    const [cr, ci, zr, zi] = rotations[k - low];
    for (let i = 0; i <= Math.min(k + 1, high); i++) {
      const [xr, xi, yr, yi] = [re[i][k], im[i][k], re[i][k + 1], im[i][k + 1]];
      re[i][k] = cr * xr - ci * xi + zr * yr - zi * yi;
      im[i][k] = cr * xi + ci * xr + zr * yi + zi * yr;
      re[i][k + 1] = -(zr * xr + zi * xi) + cr * yr + ci * yi;
      im[i][k + 1] = -(zr * xi - zi * xr) + cr * yi - ci * yr;
    }
  }
  for (let k = low; k <= high; k++) {
    re[k][k] += sr;
    im[k][k] += si;
  }
}
