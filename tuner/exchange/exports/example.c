/* Launches PREFIX through the CUDA driver API: loads the build for GPU 0, fills the inputs with ones, launches the
 * steps, and prints the time per launch and the first and last element of each output.
 *
 *     cc -std=c11 -o example example.c -ldl && ./example [folder of the bundle]
 *
 * Needs launch.h, the cubins and the NVIDIA driver, but no CUDA toolkit: it declares the driver functions that it calls
 * and looks them up in libcuda.so.1. With the toolkit, a program includes <cuda.h> and links -lcuda instead.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch.h"

#define REPEATS 10
#define ALIGNMENT 64 /* bytes, of an encoded argument */
#define PORTABLE_CLUSTER 8
#define BUILDS (sizeof PREFIX_builds / sizeof *PREFIX_builds)

typedef unsigned long long address;

/* Values of cuda.h: attributes of devices, of functions and of launches. */
enum { COMPUTE_CAPABILITY_MAJOR = 75, COMPUTE_CAPABILITY_MINOR = 76 };
enum { MAX_DYNAMIC_SHARED_SIZE_BYTES = 8, NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14 };
enum { COOPERATIVE = 2, CLUSTER_DIMENSION = 4, PROGRAMMATIC_STREAM_SERIALIZATION = 6 };

/* CUlaunchAttribute and CUlaunchConfig */
struct attribute {
    int id, padding;
    unsigned value[16];
};
struct config {
    unsigned grid[3], block[3], shared_memory;
    void *stream;
    struct attribute *attributes;
    unsigned attribute_count;
};

static struct {
    int (*GetErrorName)(int, const char **);
    int (*Init)(unsigned);
    int (*DeviceGet)(int *, int);
    int (*DeviceGetAttribute)(int *, int, int);
    int (*DeviceGetName)(char *, int, int);
    int (*DevicePrimaryCtxRetain)(void **, int);
    int (*CtxSetCurrent)(void *);
    int (*CtxSynchronize)(void);
    int (*ModuleLoad)(void **, const char *);
    int (*ModuleGetFunction)(void **, void *, const char *);
    int (*ModuleGetGlobal_v2)(address *, size_t *, void *, const char *);
    int (*FuncSetAttribute)(void *, int, int);
    int (*MemAlloc_v2)(address *, size_t);
    int (*MemcpyHtoD_v2)(address, const void *, size_t);
    int (*MemcpyDtoH_v2)(void *, address, size_t);
    int (*MemcpyDtoDAsync_v2)(address, address, size_t, void *);
    int (*MemsetD8Async)(address, unsigned char, size_t, void *);
    int (*LaunchKernelEx)(const struct config *, void *, void **, void **);
    int (*EventCreate)(void **, unsigned);
    int (*EventRecord)(void *, void *);
    int (*EventElapsedTime)(float *, void *, void *);
} cu;

static void fail(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static void *library;

/* The driver function of this name; exits if there is none. */
static tuned_function *find(const char *name) {
    void *symbol = dlsym(library, name);
    tuned_function *function;
    if (symbol == NULL) {
        fail(name, "the driver does not have it");
    }
    memcpy(&function, &symbol, sizeof function);
    return function;
}

static void store(const char *name, void *where) {
    tuned_function *function = find(name);
    memcpy(where, &function, sizeof function);
}

#define FIND(name) store("cu" #name, &cu.name)

static void load_driver(void) {
    library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == NULL) {
        fail("no NVIDIA driver", dlerror());
    }
    FIND(GetErrorName);
    FIND(Init);
    FIND(DeviceGet);
    FIND(DeviceGetAttribute);
    FIND(DeviceGetName);
    FIND(DevicePrimaryCtxRetain);
    FIND(CtxSetCurrent);
    FIND(CtxSynchronize);
    FIND(ModuleLoad);
    FIND(ModuleGetFunction);
    FIND(ModuleGetGlobal_v2);
    FIND(FuncSetAttribute);
    FIND(MemAlloc_v2);
    FIND(MemcpyHtoD_v2);
    FIND(MemcpyDtoH_v2);
    FIND(MemcpyDtoDAsync_v2);
    FIND(MemsetD8Async);
    FIND(LaunchKernelEx);
    FIND(EventCreate);
    FIND(EventRecord);
    FIND(EventElapsedTime);
}

static void check(int status, const char *what) {
    const char *name = "an unknown error";
    if (status != 0) {
        cu.GetErrorName(status, &name);
        fail(what, name);
    }
}

#define CHECK(call) check(cu.call, #call)

static void *allocate(size_t count, size_t size) {
    void *memory = calloc(count + 1, size);
    if (memory == NULL) {
        fail("calloc", "the host has too little memory");
    }
    return memory;
}

/* Of the builds that run on this device, the one of the highest compute capability; NULL if there is none. */
static const struct tuned_build *choose(int major, int minor) {
    const struct tuned_build *best = NULL;
    for (size_t i = 0; i < BUILDS; i++) {
        const struct tuned_build *build = &PREFIX_builds[i];
        int runs = build->major == major && (build->exact ? build->minor == minor : build->minor <= minor);
        if (runs && (best == NULL || build->minor > best->minor || (build->minor == best->minor && build->exact))) {
            best = build;
        }
    }
    return best;
}

/* A device-to-device copy of an array to a variable of a module. */
struct copy {
    address to, from;
    size_t bytes;
};

/* A build loaded on the device. */
struct program {
    const struct tuned_build *build;
    address *arrays;             /* one per argument */
    void **values;               /* pointer to the kernel parameter, one per argument */
    void **modules, **functions; /* one per step */
    void ***parameters;          /* the pointers for cuLaunchKernelEx, one list per step */
    struct copy *copies;         /* before each launch */
    size_t copy_count;
};

/* Allocates the argument's array, and fills it with its contents, or with its value in each element. Scratch memory
 * stays uninitialised, unless it is zeroed once. */
static address make_array(const struct tuned_argument *argument) {
    address device;
    CHECK(MemAlloc_v2(&device, argument->bytes));
    if (argument->zeroed == TUNED_ONCE) {
        CHECK(MemsetD8Async(device, 0, argument->bytes, NULL));
    }
    if (argument->role != TUNED_SCRATCH) {
        unsigned char *host = allocate(argument->bytes, 1);
        for (size_t at = 0; at < argument->bytes; at += argument->element) {
            memcpy(host + at, argument->contents ? argument->contents + at : argument->value, argument->element);
        }
        CHECK(MemcpyHtoD_v2(device, host, argument->bytes));
        free(host);
    }
    return device;
}

/* The bytes that stand for an array, such as a tensor map, as the argument encodes them. */
static void *encoded(const struct tuned_argument *argument, address array) {
    char *memory = allocate(argument->encoded + ALIGNMENT, 1);
    void *value = memory + (ALIGNMENT - (size_t)memory % ALIGNMENT);
    check(argument->encode(value, array, find), argument->name);
    return value;
}

/* A struct that is passed by value. A launch writes the addresses of arrays into it. */
static void *struct_of(const struct tuned_argument *argument) {
    void *memory = allocate(argument->element, 1);
    memcpy(memory, argument->contents, argument->element);
    return memory;
}

static void make_arguments(struct program *program) {
    const struct tuned_build *build = program->build;
    program->arrays = allocate(build->argument_count, sizeof *program->arrays);
    program->values = allocate(build->argument_count, sizeof *program->values);
    for (size_t i = 0; i < build->argument_count; i++) {
        if (build->arguments[i].bytes) {
            program->arrays[i] = make_array(&build->arguments[i]);
        }
    }
    for (size_t i = 0; i < build->argument_count; i++) {
        const struct tuned_argument *argument = &build->arguments[i];
        if (argument->alignment && program->arrays[i] % argument->alignment) {
            fail(argument->name, "its address is no multiple of the alignment that its kernels are compiled for");
        }
        if (argument->encode != NULL) {
            program->values[i] = encoded(argument, program->arrays[argument->of]);
        } else {
            program->values[i] = argument->bytes      ? (void *)&program->arrays[i]
                                 : argument->contents ? struct_of(argument)
                                                      : (void *)argument->value;
        }
    }
}

/* The first step whose kernel is in the same cubin. */
static size_t first_of_file(const struct tuned_build *build, size_t step) {
    size_t first = 0;
    while (strcmp(build->steps[first].file, build->steps[step].file) != 0) {
        first++;
    }
    return first;
}

/* Loads each cubin once, so that its kernels share their global variables. */
static void load_steps(struct program *program, const char *folder) {
    const struct tuned_build *build = program->build;
    program->modules = allocate(build->step_count, sizeof *program->modules);
    program->functions = allocate(build->step_count, sizeof *program->functions);
    program->parameters = allocate(build->step_count, sizeof *program->parameters);
    for (size_t i = 0; i < build->step_count; i++) {
        const struct tuned_step *step = &build->steps[i];
        size_t first = first_of_file(build, i);
        if (first == i) {
            char path[4096];
            snprintf(path, sizeof path, "%s/%s", folder, step->file);
            CHECK(ModuleLoad(&program->modules[i], path));
        }
        program->modules[i] = program->modules[first];
        CHECK(ModuleGetFunction(&program->functions[i], program->modules[i], step->kernel));
        if (step->shared_memory) {
            CHECK(FuncSetAttribute(program->functions[i], MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)step->shared_memory));
        }
        if (step->cluster[0] * step->cluster[1] * step->cluster[2] > PORTABLE_CLUSTER) {
            CHECK(FuncSetAttribute(program->functions[i], NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
        }
        program->parameters[i] = allocate(step->argument_count, sizeof **program->parameters);
        for (size_t j = 0; j < step->argument_count; j++) {
            program->parameters[i][j] = program->values[step->arguments[j]];
        }
    }
}

/* Collects the copies of arrays to variables: one for each cubin that has the variable. */
static void find_copies(struct program *program) {
    const struct tuned_build *build = program->build;
    program->copies = allocate(build->step_count * build->argument_count, sizeof *program->copies);
    for (size_t i = 0; i < build->argument_count; i++) {
        const struct tuned_argument *argument = &build->arguments[i];
        size_t found = program->copy_count, bytes;
        for (size_t j = 0; argument->symbol != NULL && j < build->step_count; j++) {
            struct copy *copy = &program->copies[program->copy_count];
            if (first_of_file(build, j) == j &&
                cu.ModuleGetGlobal_v2(&copy->to, &bytes, program->modules[j], argument->symbol) == 0) {
                copy->from = program->arrays[i];
                copy->bytes = argument->bytes;
                program->copy_count++;
            }
        }
        if (argument->symbol != NULL && program->copy_count == found) {
            fail(argument->symbol, "no cubin has a variable of this name");
        }
    }
}

/* Writes the addresses of arrays into structs. A launch copies the structs before it returns. */
static void set_pointers(const struct program *program, const struct tuned_pointer *pointers, size_t count) {
    for (size_t i = 0; i < count; i++) {
        char *memory = program->values[pointers[i].of];
        memcpy(memory + pointers[i].offset, &program->arrays[pointers[i].array], sizeof *program->arrays);
    }
}

static void launch_step(const struct tuned_step *step, const unsigned *grid, void *function, void **parameters) {
    struct attribute attributes[3];
    struct config config;
    unsigned count = 0;
    memset(attributes, 0, sizeof attributes);
    if (step->cooperative) {
        attributes[count].id = COOPERATIVE;
        attributes[count++].value[0] = 1;
    }
    if (step->cluster[0] * step->cluster[1] * step->cluster[2] > 1) {
        attributes[count].id = CLUSTER_DIMENSION;
        memcpy(attributes[count++].value, step->cluster, sizeof step->cluster);
    }
    if (step->programmatic) {
        attributes[count].id = PROGRAMMATIC_STREAM_SERIALIZATION;
        attributes[count++].value[0] = 1;
    }
    memcpy(config.grid, grid, sizeof config.grid);
    memcpy(config.block, step->block, sizeof config.block);
    config.shared_memory = step->shared_memory;
    config.stream = NULL;
    config.attributes = attributes;
    config.attribute_count = count;
    CHECK(LaunchKernelEx(&config, function, parameters, NULL));
}

/* Launches a step in a loop, with the arguments and values of this launch. */
static void launch_one(const struct program *program, const struct tuned_launch *launch) {
    const struct tuned_step *step = &program->build->steps[launch->step];
    void **parameters = program->parameters[launch->step];
    for (size_t i = 0; i < step->argument_count; i++) {
        size_t row = 0; /* of the values */
        parameters[i] = program->values[launch->arguments[i]];
        for (size_t j = 0; j < launch->changed_count; j++) {
            const struct tuned_argument *changed = &program->build->arguments[launch->changed[j]];
            if (launch->changed[j] == launch->arguments[i] && changed->contents) {
                memcpy(parameters[i], launch->values[row], changed->element);
            } else if (launch->changed[j] == launch->arguments[i]) {
                parameters[i] = (void *)launch->values[row];
            }
            row += (changed->element + sizeof *launch->values - 1) / sizeof *launch->values;
        }
    }
    set_pointers(program, launch->pointers, launch->pointer_count);
    launch_step(step, launch->grid, program->functions[launch->step], parameters);
}

static void launch_all(const struct program *program, const unsigned *order, size_t count) {
    for (size_t i = 0; i < count; i++) {
        launch_one(program, &program->build->launches[order[i]]);
    }
}

/* Launches the passes of a stretch until one leaves its flag 0, for which it waits after each. Returns their number. */
static unsigned launch_passes(const struct program *program, const struct tuned_stretch *stretch) {
    unsigned long long going = 1; /* as wide as any flag */
    size_t bytes = program->build->arguments[stretch->flag].bytes;
    unsigned pass = 0;
    while (going) {
        if (pass == stretch->most) {
            fail(program->build->arguments[stretch->flag].name, "it is not 0 after the most passes that are allowed");
        }
        CHECK(MemsetD8Async(program->arrays[stretch->flag], 0, bytes, NULL));
        if (pass % 2 == 1 && stretch->second != NULL) {
            launch_all(program, stretch->second, stretch->second_count);
        } else {
            launch_all(program, stretch->order, stretch->order_count);
        }
        going = 0;
        CHECK(MemcpyDtoH_v2(&going, program->arrays[stretch->flag], bytes));
        pass++;
    }
    return pass;
}

static void launch_stretch(const struct program *program, const struct tuned_stretch *stretch) {
    unsigned passes = 1;
    if (stretch->flag >= 0) {
        passes = launch_passes(program, stretch);
    } else {
        launch_all(program, stretch->order, stretch->order_count);
    }
    for (size_t i = 0; passes % 2 == 1 && i < stretch->copy_count; i++) {
        const int *copy = stretch->copies[i];
        size_t bytes = program->build->arguments[copy[0]].bytes;
        CHECK(MemcpyDtoDAsync_v2(program->arrays[copy[0]], program->arrays[copy[1]], bytes, NULL));
    }
}

static void launch(const struct program *program) {
    const struct tuned_build *build = program->build;
    for (size_t i = 0; i < build->argument_count; i++) {
        if (build->arguments[i].zeroed == TUNED_EACH) {
            CHECK(MemsetD8Async(program->arrays[i], 0, build->arguments[i].bytes, NULL));
        }
    }
    for (size_t i = 0; i < program->copy_count; i++) {
        CHECK(MemcpyDtoDAsync_v2(program->copies[i].to, program->copies[i].from, program->copies[i].bytes, NULL));
    }
    for (size_t i = 0; i < build->stretch_count; i++) {
        launch_stretch(program, &build->stretches[i]);
    }
    for (size_t i = 0; build->stretch_count == 0 && i < build->step_count; i++) {
        set_pointers(program, build->steps[i].pointers, build->steps[i].pointer_count);
        launch_step(&build->steps[i], build->steps[i].grid, program->functions[i], program->parameters[i]);
    }
}

static void print_element(const struct tuned_argument *argument, address array, size_t at) {
    union {
        unsigned char bytes[16];
        float f;
        double d;
        int i;
    } value;
    CHECK(MemcpyDtoH_v2(value.bytes, array + at, argument->element));
    if (argument->type == 'f') {
        printf(" %g", value.f);
    } else if (argument->type == 'd') {
        printf(" %g", value.d);
    } else if (argument->type == 'i') {
        printf(" %d", value.i);
    } else {
        for (size_t i = 0; i < argument->element; i++) {
            printf("%s%02x", i ? "" : " 0x", value.bytes[argument->element - 1 - i]);
        }
    }
}

int main(int argc, char **argv) {
    int device, major, minor;
    char name[256];
    void *context, *start, *stop;
    struct program program;
    float milliseconds;

    load_driver();
    CHECK(Init(0));
    CHECK(DeviceGet(&device, 0));
    CHECK(DeviceGetName(name, sizeof name, device));
    CHECK(DeviceGetAttribute(&major, COMPUTE_CAPABILITY_MAJOR, device));
    CHECK(DeviceGetAttribute(&minor, COMPUTE_CAPABILITY_MINOR, device));
    memset(&program, 0, sizeof program);
    program.build = choose(major, minor);
    if (program.build == NULL) {
        fail(name, "the bundle has no build for its compute capability; export with --architecture");
    }
    CHECK(DevicePrimaryCtxRetain(&context, device));
    CHECK(CtxSetCurrent(context));
    make_arguments(&program);
    load_steps(&program, argc > 1 ? argv[1] : ".");
    find_copies(&program);

    CHECK(EventCreate(&start, 0));
    CHECK(EventCreate(&stop, 0));
    for (int run = 0; run <= REPEATS; run++) { /* the first run is a warm-up */
        if (run == 1) {
            CHECK(EventRecord(start, NULL));
        }
        launch(&program);
    }
    CHECK(EventRecord(stop, NULL));
    CHECK(CtxSynchronize());
    CHECK(EventElapsedTime(&milliseconds, start, stop));

    const struct tuned_build *build = program.build;
    for (size_t i = 0; i < build->step_count; i++) {
        printf("%s%s", i ? ", " : "", build->steps[i].kernel);
    }
    printf(" on %s, %s: %g ms per launch\n", name, build->architecture, milliseconds / REPEATS);
    for (size_t i = 0; i < build->argument_count; i++) {
        const struct tuned_argument *argument = &build->arguments[i];
        if (argument->role == TUNED_OUTPUT) {
            printf("%s:", argument->name);
            print_element(argument, program.arrays[i], 0);
            print_element(argument, program.arrays[i], argument->bytes - argument->element);
            printf("\n");
        }
    }
    return 0;
}
