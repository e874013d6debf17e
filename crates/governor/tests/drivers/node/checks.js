// What both programs need.

import assert from "node:assert/strict";

export const CONTENDERS = 6;
export const ROUNDS = 12;

// Errors after which a transaction is tried again.
export const AGAIN = ["40001", "40P01"];

// Runs the checks one after the other, under the names of their functions.
export async function run(...checks) {
    for (const check of checks) {
        await check();
        console.log("ok", check.name);
    }
    // Connections that a check forgot would keep the program alive.
    process.exit(0);
}

// What is thrown must have that SQLSTATE.
export function refused(code, promise) {
    return assert.rejects(promise, (error) => {
        assert.equal(error.code, code, `${error.message} at ${error.stack}`);
        return true;
    });
}

// A promise that takes too long says what it was.
export function within(seconds, what, promise) {
    let timer;
    const late = new Promise((_, reject) => {
        timer = setTimeout(() => reject(new Error(`${what}: nothing in ${seconds} s`)), seconds * 1000);
    });
    return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}
