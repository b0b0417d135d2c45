/* The part of webgpu.h that burn uses, declared here so that building burn needs no header of a WebGPU library.
 *
 * The layouts are those of the standard webgpu.h as wgpu-native 29 has them. The header is not stable across major versions of
 * wgpu-native, so driver_wgpu.c accepts this version alone.
 */
#ifndef BURN_WEBGPU_API_H
#define BURN_WEBGPU_API_H

#include <stddef.h>
#include <stdint.h>

enum { WGPU_MAJOR = 29 };

typedef void *wgpu_handle; /* of any object */

typedef struct wgpu_text {
    const char *data;
    size_t length;
} wgpu_text;

enum { WGPU_WGSL_SOURCE = 2 };
typedef struct wgpu_chain {
    struct wgpu_chain *next;
    uint32_t type;
} wgpu_chain;

/* wgpu-native's own options of an instance, behind an instance's descriptor: the fields that burn leaves at zero are `rest`. */
enum { WGPU_INSTANCE_EXTRAS = 0x30004, WGPU_VULKAN = 1, WGPU_METAL = 4, WGPU_DIRECT3D = 8 };
typedef struct wgpu_instance_extras {
    wgpu_chain chain;
    uint64_t backends;
    uint64_t rest[30];
} wgpu_instance_extras;

typedef struct wgpu_instance_descriptor {
    wgpu_chain *next;
    size_t feature_count;
    const void *features, *limits;
} wgpu_instance_descriptor;

enum { WGPU_HIGH_PERFORMANCE = 2, WGPU_SPONTANEOUS = 3, WGPU_SUCCESS = 1, WGPU_TIMESTAMP_QUERY = 9,
       WGPU_OUT_OF_MEMORY = 3 };

typedef struct wgpu_adapter_options {
    wgpu_chain *next;
    uint32_t level, power, force_fallback, backend;
    wgpu_handle surface;
} wgpu_adapter_options;

typedef struct wgpu_limits {
    wgpu_chain *next;
    uint32_t textures[4];
    uint32_t bind_groups, bind_groups_and_vertex_buffers, bindings_of_group, dynamic_uniforms, dynamic_storages, sampled, samplers,
        storage_buffers, storage_textures, uniform_buffers;
    uint64_t uniform_binding, storage_binding;
    uint32_t uniform_alignment, storage_alignment, vertex_buffers;
    uint64_t buffer;
    uint32_t vertex_attributes, vertex_stride, variables, colours, colour_bytes;
    uint32_t workgroup_memory, invocations, workgroup[3], workgroups;
    uint32_t immediate;
} wgpu_limits;

typedef struct wgpu_info {
    wgpu_chain *next;
    wgpu_text vendor, architecture, device, description;
    uint32_t backend, adapter, vendor_id, device_id, subgroup_least, subgroup_most;
} wgpu_info;

/* A callback with its two words of context. `mode`: WGPU_SPONTANEOUS. */
typedef struct wgpu_callback {
    wgpu_chain *next;
    uint32_t mode;
    void (*call)(void);
    void *first, *second;
} wgpu_callback;

typedef struct wgpu_error_callback {
    wgpu_chain *next;
    void (*call)(const wgpu_handle *device, uint32_t type, wgpu_text message, void *first, void *second);
    void *first, *second;
} wgpu_error_callback;

typedef struct wgpu_device_descriptor {
    wgpu_chain *next;
    wgpu_text label;
    size_t feature_count;
    const uint32_t *features;
    const wgpu_limits *limits;
    struct {
        wgpu_chain *next;
        wgpu_text label;
    } queue;
    wgpu_callback lost;
    wgpu_error_callback error;
} wgpu_device_descriptor;

enum {
    WGPU_MAP_READ = 1,
    WGPU_COPY_SOURCE = 4,
    WGPU_COPY_TARGET = 8,
    WGPU_UNIFORM_USE = 0x40,
    WGPU_STORAGE_USE = 0x80,
    WGPU_RESOLVE_USE = 0x200,
};
typedef struct wgpu_buffer_descriptor {
    wgpu_chain *next;
    wgpu_text label;
    uint64_t usage, size;
    uint32_t mapped;
} wgpu_buffer_descriptor;

enum { WGPU_UNIFORM = 2, WGPU_STORAGE = 3, WGPU_COMPUTE_STAGE = 4 };
typedef struct wgpu_layout_entry {
    wgpu_chain *next;
    uint32_t binding;
    uint64_t visibility;
    uint32_t array_size;
    struct {
        wgpu_chain *next;
        uint32_t type, dynamic;
        uint64_t least;
    } buffer;
    struct {
        wgpu_chain *next;
        uint32_t type;
    } sampler;
    struct {
        wgpu_chain *next;
        uint32_t type, dimension, multisampled;
    } texture;
    struct {
        wgpu_chain *next;
        uint32_t access, format, dimension;
    } storage_texture;
} wgpu_layout_entry;

/* A list of items with a label: bind group layouts, pipeline layouts. */
typedef struct wgpu_layout_descriptor {
    wgpu_chain *next;
    wgpu_text label;
    size_t count;
    const void *items;
    uint32_t immediate; /* of a pipeline layout alone */
} wgpu_layout_descriptor;

typedef struct wgpu_group_entry {
    wgpu_chain *next;
    uint32_t binding;
    wgpu_handle buffer;
    uint64_t offset, size;
    wgpu_handle sampler, view;
} wgpu_group_entry;

typedef struct wgpu_group_descriptor {
    wgpu_chain *next;
    wgpu_text label;
    wgpu_handle layout;
    size_t count;
    const wgpu_group_entry *entries;
} wgpu_group_descriptor;

typedef struct wgpu_wgsl {
    wgpu_chain chain;
    wgpu_text code;
} wgpu_wgsl;

enum { WGPU_NO_CHECKS = 0, WGPU_ALL_CHECKS = 3 }; /* of a shader as it runs: indices, loops without an end */
typedef struct wgpu_labelled { /* shader modules, command encoders */
    const void *next;
    wgpu_text label;
} wgpu_labelled;

typedef struct wgpu_pipeline_descriptor {
    wgpu_chain *next;
    wgpu_text label;
    wgpu_handle layout;
    struct {
        wgpu_chain *next;
        wgpu_handle module;
        wgpu_text entry;
        size_t constant_count;
        const void *constants;
    } compute;
} wgpu_pipeline_descriptor;

enum { WGPU_NO_QUERY = 0xffffffff };
typedef struct wgpu_timestamps {
    wgpu_chain *next;
    wgpu_handle set;
    uint32_t begin, end;
} wgpu_timestamps;

typedef struct wgpu_pass_descriptor {
    wgpu_chain *next;
    wgpu_text label;
    const wgpu_timestamps *timestamps;
} wgpu_pass_descriptor;

enum { WGPU_TIMESTAMPS = 2 };
typedef struct wgpu_queries_descriptor {
    wgpu_chain *next;
    wgpu_text label;
    uint32_t type, count;
} wgpu_queries_descriptor;

typedef struct wgpu_future {
    uint64_t id;
} wgpu_future;

/* The functions of the library by their names in webgpu.h, and four of wgpu-native's own. */
typedef struct wgpu_api {
    uint32_t (*version)(void);
    wgpu_handle (*instance)(const wgpu_instance_descriptor *descriptor);
    wgpu_future (*request_adapter)(wgpu_handle instance, const wgpu_adapter_options *options, wgpu_callback callback);
    uint32_t (*adapter_info)(wgpu_handle adapter, wgpu_info *info);
    uint32_t (*adapter_limits)(wgpu_handle adapter, wgpu_limits *limits);
    uint32_t (*adapter_has)(wgpu_handle adapter, uint32_t feature);
    wgpu_future (*request_device)(wgpu_handle adapter, const wgpu_device_descriptor *descriptor, wgpu_callback callback);
    wgpu_handle (*queue)(wgpu_handle device);
    uint32_t (*poll)(wgpu_handle device, uint32_t wait, const uint64_t *submission);
    wgpu_future (*when_done)(wgpu_handle queue, wgpu_callback callback);
    wgpu_handle (*buffer)(wgpu_handle device, const wgpu_buffer_descriptor *descriptor);
    void (*buffer_release)(wgpu_handle buffer);
    wgpu_future (*buffer_map)(wgpu_handle buffer, uint64_t mode, size_t offset, size_t size, wgpu_callback callback);
    const void *(*buffer_mapped)(wgpu_handle buffer, size_t offset, size_t size);
    void (*buffer_unmap)(wgpu_handle buffer);
    wgpu_handle (*group_layout)(wgpu_handle device, const wgpu_layout_descriptor *descriptor);
    wgpu_handle (*pipeline_layout)(wgpu_handle device, const wgpu_layout_descriptor *descriptor);
    wgpu_handle (*group)(wgpu_handle device, const wgpu_group_descriptor *descriptor);
    void (*group_release)(wgpu_handle group);
    wgpu_handle (*module)(wgpu_handle device, const wgpu_labelled *descriptor, uint64_t checks);
    void (*module_release)(wgpu_handle module);
    wgpu_handle (*pipeline)(wgpu_handle device, const wgpu_pipeline_descriptor *descriptor);
    void (*pipeline_release)(wgpu_handle pipeline);
    wgpu_handle (*encoder)(wgpu_handle device, const wgpu_labelled *descriptor);
    wgpu_handle (*begin_pass)(wgpu_handle encoder, const wgpu_pass_descriptor *descriptor);
    void (*set_pipeline)(wgpu_handle pass, wgpu_handle pipeline);
    void (*set_group)(wgpu_handle pass, uint32_t index, wgpu_handle group, size_t count, const uint32_t *offsets);
    void (*dispatch)(wgpu_handle pass, uint32_t x, uint32_t y, uint32_t z);
    void (*end_pass)(wgpu_handle pass);
    void (*pass_release)(wgpu_handle pass);
    void (*copy)(wgpu_handle encoder, wgpu_handle from, uint64_t from_offset, wgpu_handle to, uint64_t to_offset, uint64_t size);
    void (*resolve)(wgpu_handle encoder, wgpu_handle queries, uint32_t first, uint32_t count, wgpu_handle to, uint64_t offset);
    wgpu_handle (*finish)(wgpu_handle encoder, const wgpu_labelled *descriptor);
    void (*encoder_release)(wgpu_handle encoder);
    void (*commands_release)(wgpu_handle commands);
    void (*submit)(wgpu_handle queue, size_t count, const wgpu_handle *commands);
    void (*write)(wgpu_handle queue, wgpu_handle buffer, uint64_t offset, const void *data, size_t size);
    wgpu_handle (*queries)(wgpu_handle device, const wgpu_queries_descriptor *descriptor);
    float (*timestamp_period)(wgpu_handle queue);
} wgpu_api;

#endif
