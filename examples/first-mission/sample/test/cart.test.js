import assert from "node:assert/strict";
import { test } from "node:test";
import { cartTotal, lineTotal } from "../src/cart.js";

test("a line costs its price times its quantity", () => {
  assert.equal(lineTotal({ priceCents: 250, quantity: 3 }), 750);
});

test("a cart counts quantities", () => {
  const lines = [
    { priceCents: 250, quantity: 3 },
    { priceCents: 100, quantity: 1 },
  ];
  assert.equal(cartTotal(lines), 850);
});

test("a discount is rounded to whole cents", () => {
  assert.equal(cartTotal([{ priceCents: 333, quantity: 1 }], 10), 300);
});
