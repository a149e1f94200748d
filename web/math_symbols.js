// What LaTeX's commands stand for.

// Letters and symbols that are identifiers: an <mi> each.
const LETTERS = 'alpha α beta β gamma γ delta δ epsilon ϵ varepsilon ε zeta ζ eta η theta θ vartheta ϑ ' +
  'iota ι kappa κ lambda λ mu μ nu ν xi ξ pi π varpi ϖ rho ρ varrho ϱ sigma σ varsigma ς tau τ ' +
  'upsilon υ phi ϕ varphi φ chi χ psi ψ omega ω Gamma Γ Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π Sigma Σ ' +
  'Upsilon Υ Phi Φ Psi Ψ Omega Ω infty ∞ partial ∂ nabla ∇ ell ℓ hbar ℏ Re ℜ Im ℑ aleph ℵ emptyset ∅ ' +
  'varnothing ∅ imath ı jmath ȷ angle ∠ triangle △ square □ blacksquare ■ top ⊤ bot ⊥ degree °';

// Operators and relations: an <mo> each.
const OPERATORS = 'pm ± mp ∓ times × div ÷ cdot ⋅ ast ∗ star ⋆ circ ∘ bullet ∙ oplus ⊕ ominus ⊖ ' +
  'otimes ⊗ odot ⊙ cap ∩ cup ∪ setminus ∖ wedge ∧ land ∧ vee ∨ lor ∨ neg ¬ lnot ¬ leq ≤ le ≤ geq ≥ ge ≥ ' +
  'neq ≠ ne ≠ equiv ≡ approx ≈ sim ∼ simeq ≃ cong ≅ propto ∝ ll ≪ gg ≫ prec ≺ succ ≻ subset ⊂ ' +
  'supset ⊃ subseteq ⊆ supseteq ⊇ in ∈ ni ∋ notin ∉ mid ∣ nmid ∤ parallel ∥ perp ⊥ vdash ⊢ models ⊨ ' +
  'forall ∀ exists ∃ nexists ∄ to → rightarrow → leftarrow ← gets ← leftrightarrow ↔ Rightarrow ⇒ ' +
  'Leftarrow ⇐ Leftrightarrow ⇔ implies ⟹ impliedby ⟸ iff ⟺ mapsto ↦ longrightarrow ⟶ uparrow ↑ ' +
  'downarrow ↓ hookrightarrow ↪ rightharpoonup ⇀ ldots … dots … cdots ⋯ vdots ⋮ ddots ⋱ prime ′ ' +
  'therefore ∴ because ∵ colon : lbrace { rbrace } langle ⟨ rangle ⟩ lceil ⌈ rceil ⌉ lfloor ⌊ rfloor ⌋ ' +
  'lvert | rvert | vert | lVert ‖ rVert ‖ Vert ‖ backslash \\ triangleq ≜ coloneqq ≔ asymp ≍ dagger † ' +
  'lesssim ≲ gtrsim ≳ doteq ≐ checkmark ✓ lbrack [ rbrack ]';

// Operators with limits above and below in formulas that are displayed.
const BIG = 'sum ∑ prod ∏ coprod ∐ bigcup ⋃ bigcap ⋂ bigoplus ⨁ bigotimes ⨂ bigvee ⋁ bigwedge ⋀';
const INTEGRALS = 'int ∫ iint ∬ iiint ∭ oint ∮';

const ACCENTS = 'hat ^ widehat ^ bar ¯ overline ‾ vec → overrightarrow → dot ˙ ddot ¨ tilde ~ ' +
  'widetilde ~ check ˇ breve ˘ acute ´ grave `';

function table(text) {
  const parts = text.split(' '), map = new Map();
  for (let i = 0; i + 1 < parts.length; i += 2) map.set(parts[i], parts[i + 1]);
  return map;
}

export const letters = table(LETTERS);
export const operators = table(OPERATORS);
export const big = table(BIG);
export const integrals = table(INTEGRALS);
export const accents = table(ACCENTS);

export const functions = new Set(('sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh log ln lg exp ' +
  'det dim ker deg arg hom Pr gcd').split(' '));
export const limits = new Set('lim limsup liminf max min sup inf argmax argmin'.split(' '));

// Widths of spaces in em.
export const spaces = new Map([[',', 0.167], [':', 0.222], [';', 0.278], ['!', -0.167], [' ', 0.25],
  ['~', 0.25], ['quad', 1], ['qquad', 2], ['thinspace', 0.167], ['enspace', 0.5]]);

// Commands that change sizes or layout in ways that are left to the browser.
export const ignored = new Set(('displaystyle textstyle scriptstyle limits nolimits big Big bigg Bigg ' +
  'bigl bigr Bigl Bigr biggl biggr Biggl Biggr bigm middle nonumber notag hline relax strut mathstrut ' +
  'allowbreak nobreak boldmath').split(' '));

// Alphabets: the first capital, small letter and digit in Unicode, and what lies elsewhere.
const ALPHABETS = {
  mathbf: [0x1D400, 0x1D41A, 0x1D7CE], boldsymbol: [0x1D468, 0x1D482, 0x1D7CE], bm: [0x1D468, 0x1D482, 0x1D7CE],
  mathbb: [0x1D538, 0x1D552, 0x1D7D8], mathcal: [0x1D49C, 0x1D4B6, 0], mathscr: [0x1D49C, 0x1D4B6, 0],
  mathfrak: [0x1D504, 0x1D51E, 0], mathsf: [0x1D5A0, 0x1D5BA, 0x1D7E2], mathtt: [0x1D670, 0x1D68A, 0x1D7F6],
};
const EXCEPTIONS = new Map(Object.entries({
  mathbbC: 'ℂ', mathbbH: 'ℍ', mathbbN: 'ℕ', mathbbP: 'ℙ', mathbbQ: 'ℚ', mathbbR: 'ℝ', mathbbZ: 'ℤ',
  mathcalB: 'ℬ', mathcalE: 'ℰ', mathcalF: 'ℱ', mathcalH: 'ℋ', mathcalI: 'ℐ', mathcalL: 'ℒ', mathcalM: 'ℳ',
  mathcalR: 'ℛ', mathcale: 'ℯ', mathcalg: 'ℊ', mathcalo: 'ℴ', mathfrakC: 'ℭ', mathfrakH: 'ℌ',
  mathfrakI: 'ℑ', mathfrakR: 'ℜ', mathfrakZ: 'ℨ',
}));

export const isAlphabet = (name) => Object.hasOwn(ALPHABETS, name) || name === 'mathrm' || name === 'mathit';

// A letter or digit in an alphabet.
export function inAlphabet(c, name) {
  if (!Object.hasOwn(ALPHABETS, name)) return c;
  const special = EXCEPTIONS.get((name === 'mathscr' ? 'mathcal' : name) + c);
  if (special) return special;
  const [capital, small, digit] = ALPHABETS[name];
  if (c >= 'A' && c <= 'Z') return String.fromCodePoint(capital + c.charCodeAt(0) - 65);
  if (c >= 'a' && c <= 'z') return String.fromCodePoint(small + c.charCodeAt(0) - 97);
  if (c >= '0' && c <= '9' && digit) return String.fromCodePoint(digit + c.charCodeAt(0) - 48);
  return c;
}
