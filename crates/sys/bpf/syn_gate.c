// SPDX-License-Identifier: Apache-2.0
//
// The gate in front of the kernel: drops new connections before a packet buffer is spent on them (XDP).
//
// Owns the decision about one frame: does it ask for a new TCP connection to one of our listeners, and may it enter?
// What must hold: everything else passes untouched, and so does whatever cannot be read with certainty: frames with VLAN
// tags, fragments, headers that are cut short or contradict themselves. The kernel judges those. Needs no helper that is
// reserved to GPL programs, and no BTF of the running kernel.
//
// How much may enter is one word for each listener (`rules`), written by `crates/sys/src/xdp.rs`, which also describes
// what the fields of the maps mean. Who may enter is fair by source: a source that asks more often than the level of the
// rule is cut to that level, one that asks less often is not touched (approximate fair dropping: Pan, Breslau, Prabhakar,
// Shenker 2003). A source is one IPv4 address, or one /64 of IPv6.
//
// How often a source asks is told by a count-min sketch over two windows of time: fixed memory, nothing to evict, so that
// a flood from invented addresses makes all sources look alike, which is a random share for everybody, and no more.

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define MAP_TYPE(type_number) int(*type)[type_number]
#define MAP_ENTRIES(number) int(*max_entries)[number]

static void *(*const map_lookup)(void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
static __u64 (*const clock_ns)(void) = (void *)BPF_FUNC_ktime_get_ns;
static __u32 (*const random32)(void) = (void *)BPF_FUNC_get_prandom_u32;

// Sizes: `crates/sys/src/xdp.rs` has the same.
enum { LISTENERS = 64, TARGETS = 4096 };

// ---- Maps -----------------------------------------------------------------------------------------------------------

// An address and port of ours, in network order. IPv4 as ::ffff:a.b.c.d.
struct target {
	__u8 address[16];
	__u16 port;
	__u16 zero;
};

// What came to one listener, on one CPU.
struct tally {
	__u64 seen;
	// The sum over those of how often their source had asked: divided by `seen`, the crowd that a SYN comes in.
	__u64 crowd;
	__u64 dropped;
};

// Which targets belong to which listener.
struct {
	MAP_TYPE(BPF_MAP_TYPE_HASH);
	MAP_ENTRIES(TARGETS);
	struct target *key;
	__u32 *value;
} targets SEC(".maps");

// What may enter, one word for each listener: see `may_enter`.
struct {
	MAP_TYPE(BPF_MAP_TYPE_ARRAY);
	MAP_ENTRIES(LISTENERS);
	__u32 *key;
	__u64 *value;
} rules SEC(".maps");

struct {
	MAP_TYPE(BPF_MAP_TYPE_PERCPU_ARRAY);
	MAP_ENTRIES(LISTENERS);
	__u32 *key;
	struct tally *value;
} tallies SEC(".maps");

// ---- How often a source asks ----------------------------------------------------------------------------------------

enum { ROWS = 4, CELLS = 4096, WINDOW_BITS = 26 }; // 2^26 ns are 67 ms

// One cell is one word, so that it can be exchanged at once: the number of the window (16 bits), how many came in the
// window before (24), how many in this one (24; 67 ms are too short for 2^24 frames). A number comes again after 73
// minutes; a cell that was not touched for exactly that long is read wrongly once.
#define CELL_WINDOW_AT 48
#define CELL_BEFORE_AT 24
#define CELL_COUNT 0xffffffULL

struct sketch {
	__u64 cell[ROWS][CELLS];
};

struct {
	MAP_TYPE(BPF_MAP_TYPE_ARRAY);
	MAP_ENTRIES(1);
	__u32 *key;
	struct sketch *value;
} sketches SEC(".maps");

// Chosen at random when the program is loaded, so that nobody can aim at the cells of somebody else.
volatile const __u64 seed = 0;

INLINE __u64 mix(__u64 x)
{
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ULL;
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ULL;
	return x ^ (x >> 32);
}

// The cell as it stands in `window`.
INLINE __u64 aged(__u64 cell, __u16 window)
{
	__u16 age = window - (__u16)(cell >> CELL_WINDOW_AT);
	__u64 before = age == 1 ? cell & CELL_COUNT : 0;

	return age == 0 ? cell : (__u64)window << CELL_WINDOW_AT | before << CELL_BEFORE_AT;
}

// Counts one more in a cell; returns how many came within the last 67 ms, as if those of the window before had come
// evenly.
INLINE __u64 count(__u64 *cell, __u64 now)
{
	__u64 phase = now & ((1ULL << WINDOW_BITS) - 1);
	__u64 was = *(volatile __u64 *)cell;
	__u64 is = aged(was, now >> WINDOW_BITS);

	// Who loses this race finds the cell aged by somebody else.
	if (is != was)
		__sync_val_compare_and_swap(cell, was, is);
	is = __sync_fetch_and_add(cell, 1);
	__u64 before = (is >> CELL_BEFORE_AT) & CELL_COUNT;
	return (is & CELL_COUNT) + 1 + (before * ((1ULL << WINDOW_BITS) - phase) >> WINDOW_BITS);
}

// How often this source asked this listener within the last 67 ms, this time included. Never too small; too large only
// where it shares a cell with others in every row.
INLINE __u64 times_asked(__u64 source, __u32 listener)
{
	__u32 zero = 0;
	struct sketch *sketch = map_lookup(&sketches, &zero);
	__u64 now = clock_ns(), least = ~0ULL;

	if (!sketch)
		return 1;
	__u64 hash = mix(source ^ mix(seed + listener));
	// Row i uses a + i*b: two hashes do for all rows (Kirsch, Mitzenmacher 2006). An odd b visits different cells.
	__u32 a = hash, b = (hash >> 32) | 1;
#pragma unroll
	for (int row = 0; row < ROWS; row++, a += b) {
		__u64 times = count(&sketch->cell[row][(a >> 16) % CELLS], now);
		least = times < least ? times : least;
	}
	return least;
}

// ---- What a frame asks for ------------------------------------------------------------------------------------------

struct request {
	struct target to;
	__u64 source;
};

// A TCP header that asks for a new connection and nothing else.
INLINE int asks(struct tcphdr *tcp, void *end, struct request *request)
{
	if ((void *)(tcp + 1) > end || tcp->doff < 5 || !tcp->syn || tcp->ack)
		return 0;
	request->to.port = tcp->dest;
	return 1;
}

INLINE int asks_over_ipv4(struct iphdr *ip, void *end, struct request *request)
{
	if ((void *)(ip + 1) > end || ip->version != 4 || ip->ihl < 5 || ip->protocol != IPPROTO_TCP)
		return 0;
	__u32 length = ip->ihl * 4;
	// More fragments, or not the first one.
	if (ip->frag_off & __builtin_bswap16(0x3fff) || __builtin_bswap16(ip->tot_len) < length + sizeof(struct tcphdr))
		return 0;
	request->to.address[10] = request->to.address[11] = 0xff;
	__builtin_memcpy(request->to.address + 12, &ip->daddr, 4);
	request->source = ip->saddr;
	return asks((void *)ip + length, end, request);
}

// Headers that may stand between IPv6 and TCP without making it a fragment (RFC 8200 4.1); four are enough.
enum { EXTENSIONS = 4 };

INLINE int asks_over_ipv6(struct ipv6hdr *ip, void *end, struct request *request)
{
	if ((void *)(ip + 1) > end || ip->version != 6)
		return 0;
	__u8 next = ip->nexthdr;
	struct ipv6_opt_hdr *extension = (void *)(ip + 1);
#pragma unroll
	for (int i = 0; i < EXTENSIONS; i++) {
		if (next != IPPROTO_HOPOPTS && next != IPPROTO_ROUTING && next != IPPROTO_DSTOPTS)
			break;
		if ((void *)(extension + 1) > end)
			return 0;
		next = extension->nexthdr;
		extension = (void *)extension + (extension->hdrlen + 1) * 8;
	}
	if (next != IPPROTO_TCP)
		return 0;
	__builtin_memcpy(request->to.address, &ip->daddr, 16);
	__builtin_memcpy(&request->source, &ip->saddr, 8);
	return asks((void *)extension, end, request);
}

INLINE int asks_for_a_connection(struct xdp_md *frame, struct request *request)
{
	void *end = (void *)(long)frame->data_end;
	struct ethhdr *ethernet = (void *)(long)frame->data;

	if ((void *)(ethernet + 1) > end)
		return 0;
	if (ethernet->h_proto == __builtin_bswap16(ETH_P_IP))
		return asks_over_ipv4((void *)(ethernet + 1), end, request);
	if (ethernet->h_proto == __builtin_bswap16(ETH_P_IPV6))
		return asks_over_ipv6((void *)(ethernet + 1), end, request);
	return 0;
}

// ---- The decision ---------------------------------------------------------------------------------------------------

// A rule is a level in 2^-32, and above it one bit that says whether it is meant for each source. Without that bit the
// level is the share that enters; with it, it is how often a source may enter within 67 ms: of a source that asks more
// often, as large a share as makes that. 0 is no rule.
#define RULE_BY_SOURCE (1ULL << 63)

INLINE int may_enter(__u64 rule, __u64 times)
{
	if (!(rule & RULE_BY_SOURCE))
		times = 1;
	return rule == 0 || random32() * times < (rule & ~RULE_BY_SOURCE);
}

SEC("xdp.frags")
int syn_gate(struct xdp_md *frame)
{
	struct request request = {};

	if (!asks_for_a_connection(frame, &request))
		return XDP_PASS;
	__u32 *listener = map_lookup(&targets, &request.to);
	if (!listener)
		return XDP_PASS;
	__u64 *rule = map_lookup(&rules, listener);
	struct tally *tally = map_lookup(&tallies, listener);
	if (!rule || !tally)
		return XDP_PASS;
	__u64 times = times_asked(request.source, *listener);
	tally->seen++;
	tally->crowd += times;
	if (may_enter(*rule, times))
		return XDP_PASS;
	tally->dropped++;
	return XDP_DROP;
}

char terms[] SEC("license") = "Apache-2.0";
