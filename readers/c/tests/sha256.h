/* SHA-256 (FIPS 180-4), for tests. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static uint32_t sha256_turned(uint32_t x, unsigned n) { return x >> n | x << (32 - n); }

/* The first 32 bits of the fractional part of a root of a prime, of which `k` says the first 64. */
static const uint32_t sha256_k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01,
    0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
    0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08,
    0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static void sha256_block(uint32_t state[8], const unsigned char *block) {
    uint32_t w[64], v[8];
    unsigned i;
    for (i = 0; i < 16; i++) {
        const unsigned char *b = block + 4 * i;
        w[i] = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
    }
    for (; i < 64; i++) {
        uint32_t x = w[i - 15], y = w[i - 2];
        w[i] = w[i - 16] + (sha256_turned(x, 7) ^ sha256_turned(x, 18) ^ x >> 3) + w[i - 7] +
               (sha256_turned(y, 17) ^ sha256_turned(y, 19) ^ y >> 10);
    }
    memcpy(v, state, sizeof v);
    for (i = 0; i < 64; i++) {
        uint32_t s1 = sha256_turned(v[4], 6) ^ sha256_turned(v[4], 11) ^ sha256_turned(v[4], 25);
        uint32_t s0 = sha256_turned(v[0], 2) ^ sha256_turned(v[0], 13) ^ sha256_turned(v[0], 22);
        uint32_t t1 = v[7] + s1 + ((v[4] & v[5]) ^ (~v[4] & v[6])) + sha256_k[i] + w[i];
        uint32_t t2 = s0 + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += t1;
        v[0] = t1 + t2;
    }
    for (i = 0; i < 8; i++) state[i] += v[i];
}

/* Writes the digest as 64 hexadecimal digits and a zero byte. */
static void sha256_hex(const unsigned char *bytes, size_t nbytes, char hex[65]) {
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    unsigned char tail[128] = {0};
    size_t done, rest, tail_nbytes, i;
    for (done = 0; nbytes - done >= 64; done += 64) sha256_block(state, bytes + done);
    rest = nbytes - done;
    if (rest > 0) memcpy(tail, bytes + done, rest);
    tail[rest] = 0x80;
    tail_nbytes = rest < 56 ? 64 : 128;
    for (i = 0; i < 8; i++) tail[tail_nbytes - 1 - i] = (unsigned char)((uint64_t)nbytes * 8 >> (8 * i));
    for (done = 0; done < tail_nbytes; done += 64) sha256_block(state, tail + done);
    for (i = 0; i < 8; i++) snprintf(hex + 8 * i, 9, "%08lx", (unsigned long)state[i]);
}
