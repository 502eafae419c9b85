/** The price of one line of a cart, in cents. */
export function lineTotal(line) {
  return line.priceCents * line.quantity;
}

/** The price of a whole cart in cents, with its discount in percent. */
export function cartTotal(lines, discountPercent = 0) {
  let total = 0;
  for (const line of lines) {
    total += line.priceCents;
  }
  return Math.round(total * (1 - discountPercent / 100));
}
